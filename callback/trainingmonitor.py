"""The record of a run: `metrics.jsonl`, TensorBoard, and a picture of the curves."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callback import distributed
from callback.base import Callback

if TYPE_CHECKING:
    from callback.trainer import Trainer

MIN_SECONDS = 20.0  # between two drawings: a picture takes half a second,
MAX_SHARE = 0.02  # and more in a long run, but never more than this share of the time
NOT_DRAWN = ("step", "kind", "bad_steps", "samples_per_second", "sop_pairs")
GUESS = "_baseline"  # "mlm_baseline" is a dashed line in the panel of "mlm_accuracy"


class TrainingMonitor(Callback):
    """Writes what is logged and evaluated as it comes, on rank 0.

    `metrics.jsonl` holds a line for every log and evaluation; a number that is not finite is null
    there. `curves.png` is drawn again at most every MIN_SECONDS and at the end. Lines past a
    checkpoint that is resumed from are cut off.
    """

    def __init__(self, folder: Path, tensorboard: bool = True) -> None:
        self.folder, self.use_tensorboard = Path(folder), tensorboard
        self.path = self.folder / "metrics.jsonl"
        self.writer: Any = None
        self._next_drawing = 0.0

    def on_train_begin(self, trainer: Trainer) -> None:
        if not distributed.is_main():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = [line for line in read_metrics(self.path) if line["step"] <= trainer.state.step]
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        temporary.write_text("".join(map(_json_line, kept)), encoding="utf-8")
        temporary.replace(self.path)
        if self.use_tensorboard:
            from torch.utils.tensorboard import SummaryWriter  # slow to import
            self.writer = SummaryWriter(str(self.folder / "tensorboard"),
                                        purge_step=trainer.state.step + 1)

    def on_log(self, trainer: Trainer, values: Mapping[str, float]) -> None:
        self._record(trainer, "train", values)

    def on_evaluate(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        self._record(trainer, "eval", metrics)

    def on_train_end(self, trainer: Trainer) -> None:
        if distributed.is_main():
            self._draw()
            if self.writer is not None:
                self.writer.close()

    def _record(self, trainer: Trainer, kind: str, values: Mapping[str, float]) -> None:
        if not distributed.is_main():
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_json_line({"step": trainer.state.step, "kind": kind, **values}))
        if self.writer is not None:
            for name, value in values.items():
                self.writer.add_scalar(f"{kind}/{name}", value, trainer.state.step)
        if time.monotonic() > self._next_drawing:
            self._draw()

    def _draw(self) -> None:
        started = time.monotonic()
        draw_curves(read_metrics(self.path), self.folder / "curves.png")
        took = time.monotonic() - started
        self._next_drawing = started + max(MIN_SECONDS, took / MAX_SHARE)


def _json_line(line: Mapping[str, Any]) -> str:
    plain = {name: None if isinstance(value, float) and not math.isfinite(value) else value
             for name, value in line.items()}
    return json.dumps(plain) + "\n"


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a `metrics.jsonl`, null as NaN; a last line that a crash cut off is left out."""
    if not path.is_file():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            break
        lines.append({name: math.nan if value is None else value for name, value in line.items()})
    return lines


def draw_curves(lines: Iterable[Mapping[str, Any]], path: Path) -> None:
    """A panel for every number of a run over its steps, training beside evaluation.

    A part of the training loss ("mlm") goes with its evaluated loss ("mlm_loss").
    """
    series: dict[str, dict[str, list[tuple[int, float]]]] = {}
    lines = list(lines)
    evaluated = {name for line in lines if line["kind"] == "eval" for name in line}
    for line in lines:
        for name, value in line.items():
            if name in NOT_DRAWN or not isinstance(value, (int, float)):
                continue
            kind = line["kind"]
            if name.endswith(GUESS):
                name, kind = name.removesuffix(GUESS) + "_accuracy", "always one answer"
            elif f"{name}_loss" in evaluated:
                name = f"{name}_loss"
            series.setdefault(name, {}).setdefault(kind, []).append((line["step"], value))
    if not series:
        return
    import matplotlib.figure  # slow to import
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    columns = min(3, len(series))
    rows = -(-len(series) // columns)
    figure = matplotlib.figure.Figure(figsize=(4.2 * columns, 3.0 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for place, (name, kinds) in enumerate(series.items(), 1):
        axes = figure.add_subplot(rows, columns, place)
        for kind, points in kinds.items():
            marker = "o" if kind == "eval" or len(points) == 1 else None
            style = "--" if kind == "always one answer" else "-"
            axes.plot(*zip(*points, strict=True), style, label=kind, marker=marker, markersize=3)
        axes.set_title(name.replace("_", " "))
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        if len(kinds) > 1:
            axes.legend()
    temporary = path.with_name(f".{path.name}.tmp")
    figure.savefig(temporary, dpi=110, format="png")
    temporary.replace(path)
