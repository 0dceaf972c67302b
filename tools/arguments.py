"""Command lines made of dataclasses: a field is a flag, its help stands beside it.

    @dataclass
    class Settings:
        data_dir: Path = flag("folder of the data set")
        seed: int = flag("seed of everything random", default=42)

    settings = parse(Settings, "fine-tune a classifier")

Defaults give way to a JSON file (`--config FILE`), the file to the command line. A yes-or-no flag
needs no value (`--do_train`); `--do_train false` turns off what the file turns on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import types
import typing
from collections.abc import Collection, Sequence
from dataclasses import MISSING, field, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

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


def parser_of(cls: type, description: str) -> argparse.ArgumentParser:
    """The parser of a settings class, with its fields in groups."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False,
                                     exit_on_error=False,  # so that all errors can be told at once
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
    choices = item.metadata["choices"]
    if kind is bool:
        options |= {"nargs": "?", "const": True, "metavar": "false"}
    else:
        options |= {"nargs": "+" if many else None,
                    "metavar": f"{{{','.join(choices)}}}" if choices else kind.__name__.upper()}
    group.add_argument(*names, type=partial(_from_word, kind=kind, choices=choices), **options)


def _from_word(word: str, kind: type, choices: Sequence[str] | None) -> Any:
    """A word of a command line as a field's type."""
    try:
        value = {"true": True, "false": False}[word.lower()] if kind is bool else kind(word)
    except (ValueError, KeyError):
        expected = "nothing, true or false" if kind is bool else kind.__name__
        raise argparse.ArgumentTypeError(f"found {word!r}, expected {expected}") from None
    if choices and value not in choices:
        raise argparse.ArgumentTypeError(f"found {word!r}, expected one of {', '.join(choices)}")
    return value


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
    problems: list[str] = []
    values, unknown = _read_words(parser_of(cls, description),
                                  sys.argv[1:] if arguments is None else arguments, problems)
    known = _names(cls)
    for before, word in zip(["", *unknown], unknown, strict=False):
        if word.startswith("--") or not before.startswith("--"):  # else the value of that flag
            problems.append(_unknown(word, known))
    config = values.pop("config", None)
    if config is not None:
        values = _from_file(config, cls, problems) | values
    settings = cls(**values)
    for item in fields(cls):
        if item.metadata.get("required") and getattr(settings, item.name) is None and not any(
                problem.startswith(f"--{item.name}:") for problem in problems):
            problems.append(f"--{item.name} is missing: {item.metadata['help']}")
    if hasattr(settings, "problems"):
        problems += settings.problems()
    if problems:
        raise ArgumentError("\n  ".join(["cannot run with these arguments:", *problems])
                            if len(problems) > 1 else problems[0])
    return settings


def _names(cls: type) -> dict[str, dataclasses.Field]:
    """Every name that a field goes by, aliases too."""
    return {name: item for item in fields(cls) if "help" in item.metadata
            for name in (item.name, *item.metadata["aliases"])}


def _read_words(parser: argparse.ArgumentParser, words: Sequence[str],
                problems: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Values by field, and words of no flag. A flag that cannot be read is told and taken out."""
    while True:
        try:
            given, unknown = parser.parse_known_args(words)
            return vars(given), unknown
        except argparse.ArgumentError as error:
            names = error.argument_name.split("/")
            problems.append(f"{names[0]}: {error.message}")
            words = _without(words, names)


def _without(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """A command line without some flags and their values."""
    kept, dropping = [], False
    for word in words:
        if word.startswith("--"):
            dropping = word.split("=")[0] in names
        if not dropping:
            kept.append(word)
    return kept


def _unknown(word: str, known: Collection[str]) -> str:
    if not word.startswith("--"):
        return f"{word!r} belongs to no flag"
    near = get_close_matches(word.lstrip("-").split("=")[0], known, 1)
    return f"{word}: no such flag" + (f"; did you mean --{near[0]}?" if near else "")


def _from_file(path: Path, cls: type, problems: list[str]) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        problems.append(f"--config {path}: not a readable JSON file ({error})")
        return {}
    if not isinstance(values, dict):
        problems.append(f"--config {path}: found a {type(values).__name__}, expected an object")
        return {}
    known, hints, result = _names(cls), typing.get_type_hints(cls), {}
    for name, value in values.items():
        if name not in known:
            problems.append(f"--config {path}: {_unknown(f'--{name}', known)}")
            continue
        item = known[name]
        try:
            result[item.name] = _from_json(value, item, hints[item.name])
        except ValueError as error:
            problems.append(f"--config {path}: {name}: {error}")
    return result


def _from_json(value: Any, item: dataclasses.Field, hint: Any) -> Any:
    """A JSON value as the field's type. Raises ValueError for one of another type."""
    kind, many = _element(hint)
    if value is None and item.default is None:
        return None
    if many and isinstance(value, list):
        return [_from_json(part, item, kind) for part in value]
    right = {bool: bool, int: int, float: (int, float)}.get(kind, (str, int, float))
    if many or not isinstance(value, right) or (isinstance(value, bool) and kind is not bool):
        name = f"a list of {kind.__name__}" if many else kind.__name__
        raise ValueError(f"found {json.dumps(value)}, expected {name}")
    value = kind(value)
    choices = item.metadata["choices"]
    if choices and value not in choices:
        raise ValueError(f"found {value!r}, expected one of {', '.join(choices)}")
    return value


def save_settings(settings: Any, path: Path) -> None:
    """Write the settings of a run, in the form that `--config` reads."""
    values = {item.name: getattr(settings, item.name) for item in fields(settings)
              if "help" in item.metadata}
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False, default=str) + "\n",
                    encoding="utf-8")
