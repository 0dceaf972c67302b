"""Prediction files as the benchmarks want them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Prediction:
    guid: str  # the id in the test file, or the position of the example there
    value: str | float  # a label's name, or a number for regression
    probability: float | None = None  # of the label; None for regression


def write_predictions(path: Path, predictions: Sequence[Prediction], style: str) -> None:
    """Write predictions in one of the styles of `STYLES`, making the folder where missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STYLES[style](predictions), encoding="utf-8", newline="\n")


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.3f}"


def _glue(predictions: Sequence[Prediction]) -> str:
    lines = ["index\tprediction", *(f"{p.guid}\t{_number(p.value)}" for p in predictions)]
    return "\n".join(lines) + "\n"


def _table(predictions: Sequence[Prediction]) -> str:
    """GLUE's columns, and how sure the model is of its label."""
    if any(p.probability is None for p in predictions):
        return _glue(predictions)
    lines = ["index\tprediction\tprobability",
             *(f"{p.guid}\t{p.value}\t{p.probability:.4f}" for p in predictions)]
    return "\n".join(lines) + "\n"


def _clue(predictions: Sequence[Prediction]) -> str:
    """CLUE: one object a line; an id that is a number in the data stays one."""
    return "".join(
        json.dumps({"id": int(p.guid) if p.guid.isdecimal() else p.guid, "label": p.value},
                   ensure_ascii=False) + "\n" for p in predictions)


STYLES: dict[str, Callable[[Sequence[Prediction]], str]] = {
    "glue": _glue,
    "clue": _clue,
    "table": _table,
}
