"""Command lines made of dataclasses: a field is a flag, its help stands beside it.

    @dataclass
    class Settings:
        data_dir: Path = flag("folder of the data set")
        seed: int = flag("seed of everything random", default=42)

    settings = parse(Settings, "fine-tune a classifier")

Defaults give way to a JSON file (`--config FILE`), the file to the command line.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import types
import typing
from collections.abc import Sequence
from dataclasses import MISSING, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar

Settings = TypeVar("Settings")


def flag(help: str, default: Any = MISSING, aliases: Sequence[str] = (),
         choices: Sequence[str] | None = None, group: str | None = None) -> Any:
    """A field of a settings class. Without a default it has to be given."""
    metadata = {"help": help, "aliases": tuple(aliases), "choices": choices, "group": group}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata) if default is not MISSING else field(
        default=None, metadata=metadata | {"required": True})


class ArgumentError(ValueError):
    """A command line that cannot be run; the message names every problem."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ArgumentError(message)


def parser_of(cls: type, description: str) -> argparse.ArgumentParser:
    """The parser of a settings class: fields in groups, booleans without a value."""
    parser = _Parser(description=description, allow_abbrev=False,
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, metavar="FILE",
                        help="JSON file of settings, which the command line overrides")
    groups: dict[str | None, Any] = {None: parser}
    hints = typing.get_type_hints(cls)
    for item in fields(cls):
        if "help" not in item.metadata:
            continue
        group = item.metadata["group"]
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        names = [f"--{name}" for name in (item.name, *item.metadata["aliases"])]
        _add(groups[group], names, item, hints[item.name])
    return parser


def _add(group: Any, names: list[str], item: dataclasses.Field, hint: Any) -> None:
    kind, many = _element(hint)
    default = item.default if item.default is not MISSING else item.default_factory()
    text = item.metadata["help"].replace("%", "%%")
    if item.metadata.get("required"):
        text += " (required)"
    elif default not in (None, False, "", []):
        text += f" (default: {default})"
    options: dict[str, Any] = {"dest": item.name, "default": argparse.SUPPRESS, "help": text}
    if kind is bool:
        group.add_argument(*names, action="store_true", **options)
    else:
        group.add_argument(*names, type=kind, choices=item.metadata["choices"],
                           nargs="+" if many else None,
                           metavar=None if item.metadata["choices"] else kind.__name__.upper(),
                           **options)


def _element(hint: Any) -> tuple[type, bool]:
    """The type of a value, and whether there are many: int | None -> int; list[str] -> str."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if typing.get_origin(hint) is list:
        return typing.get_args(hint)[0], True
    return hint, False


def parse(cls: type[Settings], description: str,
          arguments: Sequence[str] | None = None) -> Settings:
    """The settings of a command line. Ends the program with one message if it cannot be run.

    Unknown flags, wrong values, missing flags and what the class's own `problems()` says are all
    told at once.
    """
    try:
        return read(cls, description, arguments)
    except ArgumentError as error:
        print(f"error: {error}\n(see --help)", file=sys.stderr)
        raise SystemExit(2) from None


def read(cls: type[Settings], description: str,
         arguments: Sequence[str] | None = None) -> Settings:
    """As `parse`, but raises `ArgumentError`."""
    parser = parser_of(cls, description)
    given, unknown = parser.parse_known_args(arguments)
    values = vars(given)
    known = {name for item in fields(cls) if "help" in item.metadata
             for name in (item.name, *item.metadata["aliases"])}
    problems = [_unknown(word, known) for word in unknown]
    config = values.pop("config", None)
    if config is not None:
        values = _from_file(config, cls, problems) | values
    settings = cls(**values)
    for item in fields(cls):
        if item.metadata.get("required") and getattr(settings, item.name) is None:
            problems.append(f"--{item.name} is missing: {item.metadata['help']}")
    if hasattr(settings, "problems"):
        problems += settings.problems()
    if problems:
        raise ArgumentError("\n  ".join(["cannot run with these arguments:", *problems])
                            if len(problems) > 1 else problems[0])
    return settings


def _unknown(word: str, known: set[str]) -> str:
    if not word.startswith("--"):
        return f"{word!r} belongs to no flag"
    near = get_close_matches(word.lstrip("-").split("=")[0], known, 1)
    return f"{word}: no such flag" + (f"; did you mean --{near[0]}?" if near else "")


def _from_file(path: Path, cls: type, problems: list[str]) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ArgumentError(f"--config {path}: not a readable JSON file ({error})") from None
    if not isinstance(values, dict):
        raise ArgumentError(f"--config {path}: found a {type(values).__name__}, expected an object")
    known = {item.name for item in fields(cls) if "help" in item.metadata}
    problems += [f"--config {path}: {_unknown(f'--{name}', known)}" for name in values
                 if name not in known]
    hints = typing.get_type_hints(cls)
    result = {}
    for name, value in values.items():
        if name in known:
            kind, many = _element(hints[name])
            if kind is Path and value is not None:
                value = [Path(v) for v in value] if many else Path(value)
            result[name] = value
    return result


def save_settings(settings: Any, path: Path) -> None:
    """Write the settings of a run, in the form that `--config` reads."""
    values = {item.name: getattr(settings, item.name) for item in fields(settings)
              if "help" in item.metadata}
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False, default=str) + "\n",
                    encoding="utf-8")
