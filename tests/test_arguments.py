"""Command lines made of dataclasses: what is read, from where, and how mistakes are told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.arguments import ArgumentError, flag, parse, parser_of, read, save_settings


@dataclass
class Base:
    """Settings that several programs share."""

    output_dir: Path = flag("where to write", group="output")
    seed: int = flag("seed of everything random", 42, aliases=["random_seed"])
    do_train: bool = flag("train", False)


@dataclass
class Settings(Base):
    learning_rate: float = flag("highest rate, 100% of it", 1e-3)
    max_steps: int = flag("steps", -1)
    warmup: int | None = flag("warm-up", None)
    lower: bool | None = flag("lower-case", None)
    data: Path | None = flag("data", None)
    kind: str = flag("kind", "small", choices=("small", "large"))
    labels: list[str] = flag("labels", [])
    rates: list[float] | None = flag("rates", None)
    told: int = 0  # no flag

    def problems(self) -> list[str]:
        return ["--learning_rate: expected at most 1"] if self.learning_rate > 1 else []


def line(text: str = "", needed: str = "--output_dir out") -> Settings:
    return read(Settings, "a program", f"{needed} {text}".split())


def config(tmp_path: Path, **values: object) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return f"--config {path}"


def problems_of(text: str, needed: str = "--output_dir out") -> str:
    with pytest.raises(ArgumentError) as error:
        line(text, needed)
    return str(error.value)


def test_defaults() -> None:
    assert line() == Settings(Path("out"))
    assert Settings(Path("out")).labels is not Settings(Path("out")).labels


def test_values_of_every_type() -> None:
    found = line("--seed 3 --do_train --learning_rate 2e-5 --max_steps -1 --warmup 7 --lower "
                 "--data a/b --kind large --labels yes no --rates 0.1 2")
    assert found == Settings(Path("out"), 3, True, 2e-5, -1, 7, True, Path("a/b"), "large",
                             ["yes", "no"], [0.1, 2.0])


@pytest.mark.parametrize("text", ["--random_seed 5", "--seed=5"])
def test_old_names_and_equal_signs(text: str) -> None:
    assert line(text).seed == 5


@pytest.mark.parametrize("text, value", [("", None), ("--lower", True), ("--lower true", True),
                                         ("--lower False", False)])
def test_yes_no_and_not_said(text: str, value: bool | None) -> None:
    assert line(text).lower is value


def test_command_line_over_file_over_defaults(tmp_path: Path) -> None:
    file = config(tmp_path, seed=1, learning_rate=1, do_train=True, output_dir="there",
                  labels=["a", 2], data=None)
    found = line(f"{file} --seed 2 --do_train false", needed="")
    assert found == Settings(Path("there"), 2, False, 1.0, labels=["a", "2"])
    assert isinstance(found.learning_rate, float) and isinstance(found.output_dir, Path)


def test_what_is_saved_reads_the_same(tmp_path: Path) -> None:
    settings = line("--seed 3 --lower false --data x --labels é b --rates 0.5 --warmup 2")
    save_settings(settings, tmp_path / "settings.json")
    assert line(f"--config {tmp_path / 'settings.json'}", needed="") == settings
    assert "é" in (tmp_path / "settings.json").read_text("utf-8")


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    told = problems_of("--seed many --sead 3 --kind huge --learning_rate 2 --warmup --lower maybe "
                       + config(tmp_path, max_steps=2.5, kind="tiny", labels="a", sede=1,
                                do_train="yes", rates=["x"]), needed="").splitlines()
    assert [line.strip() for line in told[1:]] == [
        "--seed: found 'many', expected int",
        "--kind: found 'huge', expected one of small, large",
        "--warmup: expected one argument",
        "--lower: found 'maybe', expected nothing, true or false",
        "--sead: no such flag; did you mean --seed?",
        f"--config {tmp_path}/config.json: max_steps: found 2.5, expected int",
        f"--config {tmp_path}/config.json: kind: found 'tiny', expected one of small, large",
        f'--config {tmp_path}/config.json: labels: found "a", expected a list of str',
        f"--config {tmp_path}/config.json: --sede: no such flag; did you mean --seed?",
        f'--config {tmp_path}/config.json: do_train: found "yes", expected bool',
        f'--config {tmp_path}/config.json: rates: found "x", expected float',
        "--output_dir is missing: where to write",
        "--learning_rate: expected at most 1"]


@pytest.mark.parametrize("text, told", [
    ("--sead 3", "--sead: no such flag; did you mean --seed?"),
    ("--xyzzy", "--xyzzy: no such flag"),
    ("--learning-rate 1", "--learning-rate: no such flag; did you mean --learning_rate?"),
    ("--see 3", "--see: no such flag; did you mean --seed?"),  # nor are flags abbreviated
    ("--told 3", "--told: no such flag"),
    ("--seed 3 stray", "'stray' belongs to no flag"),
    ("--output_dir", "--output_dir: expected one argument")])
def test_a_single_problem_is_one_line(text: str, told: str) -> None:
    assert problems_of(text) == told


@pytest.mark.parametrize("text, told", [
    ("{", "not a readable JSON file"), ("[1]", "found a list, expected an object")])
def test_files_that_are_none(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    found = problems_of(f"--config {path} --sead 1")
    assert told in found and str(path) in found and "--sead" in found
    assert "not a readable" in problems_of(f"--config {tmp_path / 'none.json'}")


def test_the_program_ends_with_one_message(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as end:
        parse(Settings, "a program", ["--seed", "x"])
    told = capsys.readouterr().err
    assert end.value.code == 2 and told.startswith("error: ") and "Traceback" not in told
    assert "--seed: found 'x', expected int" in told and "--output_dir is missing" in told


def test_help_names_every_flag_its_default_and_its_group(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as end:
        parse(Settings, "what the program does", ["--help"])
    assert end.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    for text in ("what the program does", "--output_dir PATH where to write (required)",
                 "--random_seed INT seed of everything random (default: 42)",
                 "highest rate, 100% of it (default: 0.001)", "--kind {small,large}",
                 "--labels STR [STR ...]", "--do_train [false] train", "output:", "--config FILE"):
        assert text in told, text
    assert "told" not in parser_of(Settings, "").format_help()
