"""All tasks by name."""

from __future__ import annotations

from difflib import get_close_matches

from processors import clue, glue
from processors.base import Task
from processors.readers import DataError

TASKS: dict[str, Task] = {**glue.TASKS, **clue.TASKS}


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


_BY_PLAIN_NAME = {_plain(alias): name
                  for alias, name in {**glue.ALIASES, **clue.ALIASES,
                                      **{name: name for name in TASKS}}.items()}


def task_named(name: str) -> str | None:
    """The proper name of a task that goes by `name`, if there is one."""
    return _BY_PLAIN_NAME.get(_plain(name))


def get_task(name: str) -> Task:
    """The row of a task. Capitals, hyphens and underscores do not matter: SST-2, sst2, sst_2.

    Raises `DataError` that lists the names there are.
    """
    found = task_named(name)
    if found is None:
        near = get_close_matches(_plain(name), _BY_PLAIN_NAME, 1)
        hint = f" (did you mean {_BY_PLAIN_NAME[near[0]]}?)" if near else ""
        raise DataError(f"--task_name {name}: no such task{hint}; there are: "
                        f"{', '.join(sorted(TASKS))}, and custom for a data set of your own "
                        "(--train_file, --text_a_column, …)")
    return TASKS[found]
