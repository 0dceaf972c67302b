"""Messages for people: on rank 0, plain, and into a file once a run has a folder."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from tqdm import tqdm


class _AboveTheBar(logging.Handler):
    """Writes without tearing a progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record), file=sys.stderr)


class _RunFile(logging.FileHandler):
    """The copy that a run keeps in its folder."""


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return level + super().format(record)


def start_logging() -> None:
    """Show messages of this library; of other ranks than 0 errors alone."""
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, _AboveTheBar)]:
        root.removeHandler(handler)
    handler = _AboveTheBar()
    handler.setFormatter(_Plain("%(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.INFO if os.environ.get("RANK", "0") == "0" else logging.ERROR)


def log_to_file(path: Path) -> None:
    """Keep a copy of the messages from here on, with times; one file at a time.

    The file is made with the first message.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, _RunFile)]:
        root.removeHandler(handler)
        handler.close()
    handler = _RunFile(path, encoding="utf-8", delay=True)
    handler.setFormatter(_Plain("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    root.addHandler(handler)
