"""Messages for people."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.logging import log_to_file, start_logging


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in [h for h in root.handlers if h not in handlers]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def test_messages_are_plain_and_warnings_are_named(capsys: pytest.CaptureFixture) -> None:
    start_logging()
    start_logging()  # a second call does not say everything twice
    logging.getLogger("any.module").info("%d examples", 3)
    logging.getLogger("any.module").warning("the head is new")
    assert capsys.readouterr().err == "3 examples\nwarning: the head is new\n"


def test_other_ranks_tell_errors_alone(capsys: pytest.CaptureFixture,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    start_logging()
    logging.getLogger("a").warning("said by rank 0 already")
    logging.getLogger("a").error("this rank failed")
    assert capsys.readouterr().err == "error: this rank failed\n"


def test_the_copy_in_the_folder_has_times(tmp_path: Path) -> None:
    start_logging()
    log_to_file(tmp_path / "run" / "run.log")
    logging.getLogger("a").info("größer")
    text = (tmp_path / "run" / "run.log").read_text("utf-8")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d größer\n", text)


def test_the_file_of_a_run_holds_that_run_alone(tmp_path: Path) -> None:
    start_logging()
    for name in ("first", "second"):
        log_to_file(tmp_path / f"{name}.log")
        logging.getLogger("a").info(name)
    assert (tmp_path / "first.log").read_text().endswith(" first\n")
    assert (tmp_path / "first.log").read_text().count("\n") == 1
    assert (tmp_path / "second.log").read_text().endswith(" second\n")


def test_a_run_without_a_message_leaves_its_folder_empty(tmp_path: Path) -> None:
    log_to_file(tmp_path / "run.log")
    assert not list(tmp_path.iterdir())
