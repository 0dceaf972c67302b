"""Print the results of several runs as one table and draw them.

    python scripts/summarize_results.py outputs/quickstart

Reads FOLDER/TASK/START/eval_results.json and metrics.jsonl, where START says what a run began from
("from_scratch", "pretrained"): each task is a row, each start a column beside the constant guess.
Where the starts are called seed-1, seed-2, …, a row has mean, median, best and deviation instead.
Writes FOLDER/results.md (the same table) and FOLDER/results.png (not for seeds).
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.figure
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg

STARTS = ("from_scratch", "pretrained")  # the order of the columns; others follow by alphabet
GUESS, COLORS = "always one answer", ("0.75", "tab:blue", "tab:orange", "tab:green")


@dataclass(frozen=True)
class Run:
    task: str
    start: str
    results: dict[str, Any]  # eval_results.json
    metrics: list[dict[str, Any]]  # metrics.jsonl

    def scores(self, split: str) -> dict[str, Any] | None:
        """The scores of the first data set of a split (dev or test); None where it has none."""
        return next(iter(self.results.get(split, {}).values()), None)


def read_runs(folder: Path) -> list[Run]:
    """All runs below a folder, by task and start. Raises `FileNotFoundError` for none."""
    runs = []
    for path in sorted(folder.glob("*/*/eval_results.json")):
        metrics = path.with_name("metrics.jsonl")  # a run that only predicts has none
        lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.is_file() else []
        runs.append(Run(path.parent.parent.name, path.parent.name,
                        json.loads(path.read_text(encoding="utf-8")), list(map(json.loads, lines))))
    if not runs:
        raise FileNotFoundError(f"{folder}: no run, expected {folder}/TASK/START/eval_results.json")
    return sorted(runs, key=lambda run: (run.task, *_order(run.start)))


def _order(start: str) -> tuple[int, str]:
    return STARTS.index(start) if start in STARTS else len(STARTS), start


def starts_of(runs: Sequence[Run]) -> list[str]:
    return sorted({run.start for run in runs}, key=_order)


def spoken(name: str) -> str:
    return name.replace("_", " ")


def table(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """A header, then a row for each task and split: the guess, then every start."""
    starts = starts_of(runs)
    rows = [("task", "split", "examples", "metric", GUESS, *map(spoken, starts))]
    for task in dict.fromkeys(run.task for run in runs):
        by_start = {run.start: run for run in runs if run.task == task}
        for split in ("dev", "test"):
            found = {start: run.scores(split) for start, run in by_start.items()}
            found = {start: scores for start, scores in found.items() if scores}
            if not found:
                continue
            one = next(iter(found.values()))
            main = one["main"]
            rows.append((task, split, f"{one['examples']:,}", spoken(main),
                         f"{one['baseline'][main]:.1%}",
                         *(f"{found[start][main]:.1%}" if start in found else "–"
                           for start in starts)))
    return rows


def are_seeds(runs: Sequence[Run]) -> bool:
    return all(re.fullmatch(r"seed-\d+", run.start) for run in runs)


def seed_table(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """A header, then a row for each task, dev set and metric: what the seeds made of it.

    Deviation is that of a sample (n - 1). Last comes the mean over the tasks of the value that
    decides, where there are several tasks.
    """
    rows = [("task", "dev set", "metric", "examples", "seeds", "mean", "median", "best",
             "deviation", GUESS)]
    decisive = []  # of each task: its mean, median, best
    for task in dict.fromkeys(run.task for run in runs):
        own = [run.results["dev"] for run in runs if run.task == task and run.results.get("dev")]
        of_sets = []
        for name, first in own[0].items() if own else ():
            for metric in first["baseline"]:
                values = [dev[name][metric] for dev in own]
                lower = metric == "mse"
                numbers = (statistics.fmean(values), statistics.median(values),
                           (min if lower else max)(values))
                deviation = f"{statistics.stdev(values):.4f}" if len(values) > 1 else "–"
                rows.append((task, name, spoken(metric), f"{first['examples']:,}",
                             str(len(values)), *(f"{number:.4f}" for number in numbers), deviation,
                             f"{first['baseline'][metric]:.4f}"))
                if metric == first["main"]:
                    of_sets.append(numbers)
        if of_sets:
            decisive.append([statistics.fmean(column) for column in zip(*of_sets, strict=True)])
    if len(decisive) > 1:
        means = [f"{statistics.fmean(column):.4f}" for column in zip(*decisive, strict=True)]
        rows.append((f"mean of {len(decisive)} tasks", "", "", "", "", *means, "", ""))
    return rows


def aligned(rows: Sequence[tuple[str, ...]], left: Collection[int] = (0, 1, 3)) -> list[str]:
    """Lines of a Markdown table whose columns line up; all but those of `left` to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [column not in left for column in range(len(widths))]
    lines = ["| " + " | ".join(cell.rjust(w) if r else cell.ljust(w)
                               for cell, w, r in zip(row, widths, right, strict=True)) + " |"
             for row in rows]
    rule = "|".join("-" * (w + 1) + ":" if r else "-" * (w + 2)
                    for w, r in zip(widths, right, strict=True))
    return [lines[0], f"|{rule}|", *lines[1:]]


def draw(runs: Sequence[Run], path: Path) -> None:
    """Above: the scores as bars. Below: the score on dev over the steps of training."""
    tasks = list(dict.fromkeys(run.task for run in runs))
    figure = matplotlib.figure.Figure(figsize=(4.5 * len(tasks), 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    for column, task in enumerate(tasks, 1):
        own = [run for run in runs if run.task == task and run.scores("dev")]
        _bars(figure.add_subplot(2, len(tasks), column), task, own)
        _curves(figure.add_subplot(2, len(tasks), len(tasks) + column), own)
    figure.savefig(path, dpi=110)


def _bars(axes: Axes, task: str, runs: Sequence[Run]) -> None:
    scores = [run.scores("dev") for run in runs]
    main = scores[0]["main"]
    names = [GUESS, *(spoken(run.start) for run in runs)]
    heights = [scores[0]["baseline"][main], *(score[main] for score in scores)]
    bars = axes.bar(names, heights, color=COLORS[:1] + COLORS[1:] * len(runs), width=0.6)
    axes.bar_label(bars, [f"{height:.1%}" for height in heights])
    axes.set_ylim(0, 1.08)
    axes.set_ylabel(f"{spoken(main)} on dev")
    axes.set_title(task)


def _curves(axes: Axes, runs: Sequence[Run]) -> None:
    main = runs[0].scores("dev")["main"]
    for run, color in zip(runs, COLORS[1:] * len(runs), strict=False):
        lines = [line for line in run.metrics if line["kind"] == "eval"]
        name = next((name for name in lines[0] if name.endswith(main)), None) if lines else None
        points = [(line["step"], line[name]) for line in lines if name in line]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=spoken(run.start), color=color)
    axes.axhline(runs[0].scores("dev")["baseline"][main], color="0.5", linestyle="--", label=GUESS)
    axes.set_xlabel("training step")
    axes.set_ylabel(f"{spoken(main)} on dev")
    axes.grid(alpha=0.3)
    axes.legend()


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Print the results of several runs as one table and draw them.")
    parser.add_argument("folder", type=Path, help="holds TASK/START/eval_results.json")
    args = parser.parse_args()
    try:
        runs = read_runs(args.folder)
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    seeds = are_seeds(runs)
    lines = aligned(seed_table(runs), left=(0, 1, 2)) if seeds else aligned(table(runs))
    (args.folder / "results.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if not seeds:
        draw(runs, args.folder / "results.png")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
