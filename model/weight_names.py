"""Between the names of a dialect and ours, by the tables of `model/weight_tables.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from model.tf_table import CheckpointError
from model.weight_tables import BERT_MARK, DIALECTS, KINDS, MARKS

OPTIONAL_BASE = ("embeddings.", "encoder.", "pooler.")  # the encoder's own children
PLACEHOLDER = re.compile(r"\{([GI])\}")
GROUP = re.compile(r"bert\.encoder\.transformer\.group\.(\d+)\.(.*)")


@dataclass(frozen=True)
class Target:
    """A name in the other dialect, and whether the matrix has to be transposed."""

    name: str
    transposed: bool = False


@dataclass(frozen=True)
class _Rule:
    theirs: str
    ours: str
    transposed: bool
    use: str


@cache
def _rules(dialect: str) -> tuple[_Rule, ...]:
    """The table of a dialect, written out: one rule a variable."""
    if dialect not in DIALECTS:
        raise ValueError(f"no dialect {dialect!r}; there are: {', '.join(DIALECTS)}")
    return tuple(
        _Rule((block.theirs + theirs + their_ending).removeprefix("/"),
              block.ours + ours + our_ending, transposed, block.use)
        for block in DIALECTS[dialect].blocks for kind, theirs, ours in block.rules
        for their_ending, our_ending, transposed in KINDS[kind])


@cache
def _pattern(name: str) -> re.Pattern[str]:
    parts = PLACEHOLDER.split(name)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [rf"(?P<{letter}>\d+)" for letter in parts[1::2]]
    return re.compile("".join(parts))


def _translate(name: str, pattern: str, result: str) -> str | None:
    match = _pattern(pattern).fullmatch(name)
    numbers = match and {letter: int(number) for letter, number in match.groupdict().items()}
    return None if match is None else PLACEHOLDER.sub(lambda m: str(numbers[m[1]]), result)


def detect_dialect(names: Iterable[str]) -> str:
    """The dialect of a file by the names in it (a key of `DIALECTS`).

    Raises `CheckpointError` for a BERT checkpoint, and for names of no known kind.
    """
    names = list(names)
    for dialect, mark in MARKS:
        if any(re.search(mark, name) for name in names):
            return dialect
    if any(re.search(BERT_MARK, name) for name in names):
        raise CheckpointError("a BERT checkpoint: this is not factorised (no embedding_hidden_"
                              "mapping_in, no word_embeddings_2, a set of weights for each layer); "
                              "expected an ALBERT checkpoint")
    raise CheckpointError("not an ALBERT checkpoint of a known kind ("
                          f"{', '.join(DIALECTS)}): {len(names)} names such as "
                          f"{', '.join(sorted(names)[:5]) or 'none'}")


def plain_names(names: Iterable[str], dialect: str) -> dict[str, str]:
    """Names without what wrapping modules put before them, and with the encoder's own prefix."""
    wrapper, base = DIALECTS[dialect].wrapper, DIALECTS[dialect].base
    plain = {}
    for name in names:
        short = name.removeprefix(wrapper)
        plain[name] = base + short if base and short.startswith(OPTIONAL_BASE) else short
    return plain


def to_model_names(names: Iterable[str], dialect: str) -> dict[str, Target | str]:
    """Their names -> ours, or the reason (a str) why a variable is no weight of an ALBERT."""
    return {name: _to_model_name(plain, dialect)
            for name, plain in plain_names(names, dialect).items()}


def _to_model_name(name: str, dialect: str) -> Target | str:
    for pattern, reason in DIALECTS[dialect].skipped:
        if re.fullmatch(pattern, name):
            return reason
    for rule in _rules(dialect):
        ours = _translate(name, rule.theirs, rule.ours)
        if ours is not None:
            return Target(ours, rule.transposed)
    return f"no such weight in the {dialect} dialect"


def from_model_names(names: Iterable[str], dialect: str) -> dict[str, Target]:
    """Our names -> theirs. Raises `CheckpointError` that lists what the dialect cannot express."""
    names = list(names)
    one_group = not any(match and int(match[1]) > 0 for match in map(GROUP.fullmatch, names))
    targets = {}
    for name in names:
        for rule in _rules(dialect):
            if rule.use == "always" or (rule.use == "one group" and one_group):
                theirs = _translate(name, rule.ours, rule.theirs)
                if theirs is not None:
                    targets[name] = Target(theirs, rule.transposed)
                    break
    missing = [name for name in names if name not in targets]
    if missing:
        raise CheckpointError(f"the {dialect} dialect has no name for {len(missing)} weights of "
                              f"this model: {', '.join(missing[:8])}")
    if dialect != "albert_pytorch":
        _check_groups(names, dialect)
    return targets


def _check_groups(names: list[str], dialect: str) -> None:
    groups: dict[int, set[str]] = {}
    for match in filter(None, map(GROUP.fullmatch, names)):
        groups.setdefault(int(match[1]), set()).add(match[2])
    uneven = [group for group, own in groups.items() if own != groups[min(groups)]]
    if uneven:
        raise CheckpointError(f"the {dialect} dialect cannot share a part of a layer (share_type "
                              f"attention or ffn): groups {uneven} lack weights of group "
                              f"{min(groups)}")


def twins(names: Iterable[str], dialect: str) -> Iterator[tuple[str, str, bool]]:
    """Tied copies in a file: (name of the copy, plain name of its original, transposed)."""
    for name, plain in plain_names(names, dialect).items():
        for copy, original, transposed in DIALECTS[dialect].twins:
            if plain == copy:
                yield name, original, transposed
