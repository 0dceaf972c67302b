"""Being asked to stop: SIGTERM, when a cluster takes its machine back, and SIGINT, Ctrl-C."""

from __future__ import annotations

import signal
import time
from types import FrameType
from typing import Any

INSIST_SECONDS = 2.0  # torchrun repeats a Ctrl-C that the terminal has already sent to every rank


class StopSignals:
    """Within `with`, a signal to stop is remembered, so that work in hand can be finished.

    Another SIGINT, a while after the first, stops at once, as KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._first: float | None = None  # when the first one came
        self._before: dict[int, Any] = {}

    @property
    def received(self) -> bool:
        return self._first is not None

    def __enter__(self) -> StopSignals:
        self._first = None
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self._before[number] = signal.signal(number, self._remember)
            except ValueError:  # not the main thread, which alone is told of signals
                break
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
        elif number == signal.SIGINT and now - self._first > INSIST_SECONDS:
            raise KeyboardInterrupt
