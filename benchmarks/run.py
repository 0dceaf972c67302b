"""How fast the library is beside Hugging Face transformers, in one run on this machine.

    pip install -r requirements-dev.txt
    python benchmarks/run.py                          every table, as JSON and Markdown
    python benchmarks/run.py --only pretraining       one of them
    python benchmarks/run.py --sst2 DATA/SST-2        the real lengths instead of their quantiles

Both sides have the same weights, get the same batches, and are checked to give the same outputs
before they are timed; they take turns, and the median of the turns counts. Peak memory is measured
in a process of its own, above what the loaded model takes.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import peers  # noqa: E402
from model.flops import flops_per_token  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
ROWS, LENGTH = 8, 128
# Tokens of SST-2's training and dev texts under the English 30k vocabulary, with [CLS] and [SEP]:
# the quantiles 0, 0.1, … 1.
TRAIN_LENGTHS = (4, 5, 6, 7, 8, 10, 13, 16, 21, 28, 70)
DEV_LENGTHS = (5, 12, 16, 19, 22, 25, 28, 31, 36, 43, 68)

Result = dict[str, Any]


def matmul_peak(dtype: torch.dtype, size: int = 2048) -> float:
    """GFLOP/s of a square matrix product, the best of five."""
    a = torch.randn(size, size, dtype=dtype)
    best = min(timed(lambda: a @ a) for _ in range(5))
    return 2 * size**3 / best / 1e9


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def take_turns(sides: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every turn; the first turn of each side is not counted."""
    for work in sides.values():
        work()
    turns: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            turns[name].append(timed(work))
    return turns


def rates(turns: dict[str, list[float]], items: float) -> Result:
    """Items a second of each side, and half the range of the turns as a share of the median."""
    found = {}
    for name, seconds in turns.items():
        middle = statistics.median(seconds)
        found[name] = {"rate": items / middle,
                       "spread": (max(seconds) - min(seconds)) / 2 / middle}
    return found


# ---- the tables ----------------------------------------------------------------------------------


def pretraining(args: argparse.Namespace) -> list[Result]:
    """A whole step of base, 8 x 128 tokens: forward, backward, clipping, AdamW."""
    rows = []
    peak = {name: matmul_peak(dtype) for name, dtype in
            (("fp32", torch.float32), ("bf16", torch.bfloat16))}
    work = flops_per_token(peers.base_config(), LENGTH) / 1e9
    for precision in args.precision:
        sides = peers.pretraining_steps(precision, ROWS, LENGTH)
        found = rates(take_turns(sides, args.rounds), ROWS * LENGTH)
        memory = {name: peak_memory("pretraining", name, precision) for name in sides}
        for name, values in found.items():
            rows.append({"work": f"pretraining step, base, 8 x 128, {precision}", "side": name,
                         "unit": "tokens/s", **values, "GB": memory[name],
                         "of peak": values["rate"] * work / peak[precision]})
    return rows


def finetuning(args: argparse.Namespace) -> list[Result]:
    """Steps of base on SST-2's lengths, batch 32: ours grouped by length, theirs padded to the
    longest of a batch."""
    rows = []
    lengths = lengths_of(args.sst2, "train", TRAIN_LENGTHS, 2000)
    for precision in args.precision:
        sides, examples = peers.finetuning_steps(precision, lengths, batches=args.batches)
        found = rates(take_turns(sides, args.rounds), examples)
        rows += [{"work": f"fine-tuning, base, SST-2's lengths, batch 32, {precision}",
                  "side": name, "unit": "examples/s", **values} for name, values in found.items()]
    return rows


def prediction(args: argparse.Namespace) -> list[Result]:
    """Classification by base, batch 32, on SST-2 dev's lengths and on 128 tokens."""
    rows = []
    dev = lengths_of(args.sst2, "dev", DEV_LENGTHS, args.examples)
    for what, lengths in (("SST-2 dev's lengths", dev),
                          ("128 tokens", np.full(args.examples // 2, 128))):
        with tempfile.TemporaryDirectory() as folder:
            sides = peers.predictors(lengths, Path(folder))
            found = rates(take_turns(sides, args.rounds), len(lengths))
        rows += [{"work": f"prediction, base, {what}", "side": name, "unit": "examples/s",
                  **values} for name, values in found.items()]
    return rows


def masking(args: argparse.Namespace) -> list[Result]:
    """Instances of 128 tokens, masked and collated, on one core."""
    with tempfile.TemporaryDirectory() as folder:
        work, instances = peers.masking(Path(folder))
        found = rates(take_turns({"ours": work}, args.rounds), instances)
    return [{"work": "masking and collating, 128 tokens, one core", "side": name,
             "unit": "instances/s", **values} for name, values in found.items()]


def startup(args: argparse.Namespace) -> list[Result]:
    """From the start of Python to the end of the first step of a base model."""
    def first_step(side: str) -> Callable[[], Any]:
        return lambda: subprocess.run([sys.executable, __file__, "--first_step", side], check=True,
                                      cwd=ROOT)
    turns = take_turns({"ours": first_step("ours"), "transformers": first_step("transformers")},
                       args.rounds)
    return [{"work": "start of Python to the first step of base", "side": name, "unit": "s",
             "rate": statistics.median(seconds),
             "spread": (max(seconds) - min(seconds)) / 2 / statistics.median(seconds)}
            for name, seconds in turns.items()]


TABLES: dict[str, Callable[[argparse.Namespace], list[Result]]] = {
    "pretraining": pretraining, "finetuning": finetuning, "prediction": prediction,
    "masking": masking, "startup": startup}


def lengths_of(folder: Path | None, split: str, quantiles: Sequence[int], count: int) -> np.ndarray:
    """Lengths in tokens, of the real texts or drawn along their quantiles."""
    rng = np.random.default_rng(0)
    if folder is None:
        places = rng.random(count) * (len(quantiles) - 1)
        return np.interp(places, range(len(quantiles)), quantiles).round().astype(int)
    lines = (folder / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts = [line.split("\t")[0] for line in lines]
    return peers.token_lengths([texts[i] for i in rng.permutation(len(texts))[:count]], folder)


def peak_memory(what: str, side: str, precision: str) -> float:
    """GB above the loaded model in a process of its own."""
    ended = subprocess.run([sys.executable, __file__, "--memory", what, side, precision],
                           check=True, capture_output=True, text=True, cwd=ROOT)
    return float(ended.stdout)


# ---- output --------------------------------------------------------------------------------------


def machine() -> Result:
    import transformers
    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), name)
    return {"processor": name, "threads": torch.get_num_threads(), "python":
            platform.python_version(), "torch": torch.__version__,
            "transformers": transformers.__version__, "numpy": np.__version__,
            "matrix product fp32 GFLOP/s": round(matmul_peak(torch.float32)),
            "matrix product bf16 GFLOP/s": round(matmul_peak(torch.bfloat16))}


def markdown(about: Result, rows: Sequence[Result]) -> str:
    """Each work's sides together, with the ratio to transformers where there is one."""
    lines = ["; ".join(f"{key} {value}" for key, value in about.items()), "",
             "| work | side | rate | unit | ± | × transformers | GB | of matrix peak |",
             "|---|---|---:|---|---:|---:|---:|---:|"]
    theirs = {row["work"]: row["rate"] for row in rows if row["side"] == "transformers"}
    for row in rows:
        peer = theirs.get(row["work"])
        cells = [row["work"], row["side"], f"{row['rate']:,.1f}", row["unit"],
                 f"{row['spread']:.0%}", f"{row['rate'] / peer:.2f}" if peer else "",
                 f"{row['GB']:.2f}" if "GB" in row else "",
                 f"{row['of peak']:.0%}" if "of peak" in row else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=TABLES, nargs="+", default=list(TABLES))
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side")
    parser.add_argument("--precision", choices=peers.DTYPES, nargs="+", default=list(peers.DTYPES),
                        help="of training; without bf16 in hardware that takes minutes a step")
    parser.add_argument("--batches", type=int, default=2, help="fine-tuning steps of a turn")
    parser.add_argument("--examples", type=int, default=128, help="texts to predict in a turn")
    parser.add_argument("--sst2", type=Path, help="folder of SST-2, with a spiece.model beside it")
    parser.add_argument("--output", type=Path, help="write FILE.json and FILE.md, too")
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)  # in a process of its own
    parser.add_argument("--first_step", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory:
        print(peers.memory_of_a_step(*args.memory, ROWS, LENGTH))
        return
    if args.first_step:
        peers.first_step(args.first_step, ROWS, LENGTH)
        return
    about, rows = machine(), []
    for name in args.only:
        print(f"{name} …", file=sys.stderr)
        rows += TABLES[name](args)
    text = markdown(about, rows)
    print(json.dumps({"machine": about, "rows": rows}, indent=1))
    print(text)
    if args.output:
        args.output.with_suffix(".json").write_text(
            json.dumps({"machine": about, "rows": rows}, indent=1) + "\n", encoding="utf-8")
        args.output.with_suffix(".md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
