"""All tasks of GLUE or CLUE with several seeds: a table of scores and one zip to submit.

    SEEDS="1 2 3" bash scripts/run_glue.sh MODEL_DIR GLUE_DIR OUTPUT_DIR [flags for every run]

`run_glue.sh` and `run_clue.sh` call this. A run is OUTPUT_DIR/TASK/seed-N; those that are finished
are left alone when it is started again, those that were interrupted go on. Environment:

    SEEDS="1 2 3"        seeds of each task
    TASKS="rte mrpc"     these tasks alone (default: all)
    SKIP_MISSING=1       pass over tasks whose folder is missing, instead of stopping

Results: OUTPUT_DIR/results.md (mean, median, best, deviation over the seeds) and
OUTPUT_DIR/submission.zip, of each task the predictions of the seed that is best on dev.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts.summarize_results import Run, aligned, read_runs, seed_table

ROOT = Path(__file__).resolve().parent.parent
SETTINGS, ZIP, TABLE = "suite.json", "submission.zip", "results.md"


class SuiteError(ValueError):
    """A suite that cannot run on; says what was found, what was expected and what to do."""


@dataclass(frozen=True)
class Row:
    """One task of a suite: where its files lie, and the flags of its runs."""

    task: str
    folders: tuple[str, ...]  # alternatives below the data folder; capitals, hyphens do not matter
    submitted: tuple[str, ...]  # names in the zip
    script: str | None = None  # holds the flags, if not `flags`
    flags: Mapping[str, object] = field(default_factory=dict, hash=False)
    starts_from: str | None = None  # a task whose best model this one begins with, where there is
    predicted_by: str | None = None  # a task whose best model predicts this one; no training


def _glue(task: str, folder: str, *submitted: str, **more: str) -> Row:
    """The flags, which are the paper's, stand in the task's own script."""
    return Row(task, (folder, f"{folder}v2"), submitted or (f"{folder}.tsv",),
               script=f"scripts/run_classifier_{task.replace('-', '')}.sh", **more)


def _clue(task: str, submitted: str | None, length: int, batch: int, rate: float, epochs: int,
          ) -> Row:
    """Usual values for base; larger models want lower rates, tiny ones higher (1e-4)."""
    more = ("cluewsc2020", "cluewsc2020_public") if task == "cluewsc" else ()
    return Row(task, (task, f"{task}_public", *more), (submitted,) if submitted else (), flags={
        "max_seq_length": length, "per_gpu_train_batch_size": batch,
        "per_gpu_eval_batch_size": 64, "learning_rate": rate, "num_train_epochs": epochs,
        "warmup_proportion": 0.1, "weight_decay": 0.01, "save_steps": 0, "logging_steps": 50})


# MNLI goes first: RTE, MRPC and STS-B start from its model, as in the paper (section 4.1).
SUITES: dict[str, tuple[Row, ...]] = {
    "glue": (
        _glue("mnli", "MNLI", "MNLI-m.tsv", "MNLI-mm.tsv"),
        Row("ax", ("diagnostic", "AX", "MNLI"), ("AX.tsv",), predicted_by="mnli"),
        _glue("cola", "CoLA"),
        _glue("sst-2", "SST-2"),
        _glue("qqp", "QQP"),
        _glue("qnli", "QNLI"),
        _glue("mrpc", "MRPC", starts_from="mnli"),
        _glue("sts-b", "STS-B", starts_from="mnli"),
        _glue("rte", "RTE", starts_from="mnli"),
        _glue("wnli", "WNLI"),
    ),
    "clue": (
        _clue("afqmc", "afqmc_predict.json", 128, 32, 2e-5, 3),
        _clue("tnews", "tnews_predict.json", 128, 32, 2e-5, 3),
        _clue("iflytek", "iflytek_predict.json", 256, 32, 2e-5, 5),
        _clue("cmnli", "cmnli_predict.json", 128, 64, 2e-5, 2),
        _clue("ocnli", "ocnli_50k_predict.json", 128, 32, 2e-5, 3),
        _clue("csl", "csl_predict.json", 256, 16, 1e-5, 5),
        _clue("cluewsc", "cluewsc11_predict.json", 128, 8, 2e-5, 20),
        # Of FewCLUE, which has fewer examples of the tasks above, too.
        _clue("bustm", None, 128, 16, 2e-5, 10),
        _clue("eprstmt", None, 256, 16, 2e-5, 10),
        # Not CLUE's own, but tasks that Chinese models are compared on.
        _clue("lcqmc", None, 128, 64, 2e-5, 5),
        _clue("bq", None, 128, 64, 2e-5, 3),
        _clue("paws-x", None, 128, 32, 2e-5, 3),
        _clue("xnli", None, 128, 64, 2e-5, 2),
        _clue("chnsenticorp", None, 256, 32, 2e-5, 3),
    ),
}


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


@dataclass(frozen=True)
class Suite:
    """A suite over one model, one data folder and one output folder."""

    name: str
    model: Path
    data: Path
    out: Path
    seeds: tuple[int, ...] = (1, 2, 3)
    flags: tuple[str, ...] = ()  # for every run; they win over the row's

    # ---- before the work ---------------------------------------------------------------------

    def chosen(self, names: Sequence[str], skip_missing: bool) -> dict[Row, Path]:
        """The rows to run with their folders. Raises `SuiteError` for unknown or missing ones."""
        rows = {_plain(row.task): row for row in SUITES[self.name]}
        unknown = [name for name in names if _plain(name) not in rows]
        if unknown:
            raise SuiteError(f"TASKS: no {', '.join(unknown)} in {self.name}; there are: "
                             f"{', '.join(row.task for row in rows.values())}")
        wanted = [row for key, row in rows.items()
                  if not names or key in map(_plain, names)]
        if not self.data.is_dir():
            raise SuiteError(f"{self.data}: no such folder, expected one with a folder a task")
        there = {_plain(path.name): path for path in sorted(self.data.iterdir()) if path.is_dir()}
        found: dict[Row, Path] = {}
        missing = []
        for row in wanted:
            folder = next((there[_plain(name)] for name in row.folders if _plain(name) in there),
                          None)
            if folder is None:
                missing.append(f"{row.task} ({' or '.join(row.folders)})")
            else:
                found[row] = folder
        if missing:
            message = f"{self.data}: no folder for {', '.join(missing)}"
            if not skip_missing or not found:
                listing = ", ".join(path.name for path in there.values()) or "none"
                raise SuiteError(f"{message}; found the folders: {listing}. SKIP_MISSING=1 passes "
                                 "over them, TASKS=\"…\" names those to run")
            say(f"{message}; passed over")
        return found

    def remember(self) -> None:
        """Note what the runs are made of. Raises `SuiteError` where others are there already."""
        path = self.out / SETTINGS
        mine = {"suite": self.name, "model": str(self.model), "data": str(self.data),
                "flags": list(self.flags)}
        if path.is_file():
            there = json.loads(path.read_text(encoding="utf-8"))
            wrong = [f"{key}: there {there.get(key)}, now {value}" for key, value in mine.items()
                     if there.get(key) != value]
            if wrong:
                raise SuiteError(f"{self.out} holds runs of other settings:\n  "
                                 + "\n  ".join(wrong) + "\nGive another OUTPUT_DIR")
        self.out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(mine, indent=2) + "\n", encoding="utf-8")

    # ---- the runs ----------------------------------------------------------------------------

    def folder(self, task: str, seed: int) -> Path:
        return self.out / task / f"seed-{seed}"

    def run(self, row: Row, data: Path) -> None:
        """All seeds of a task, those that are not finished."""
        if row.predicted_by:
            self._predict(row, data)
            return
        model, more = self.model, ()
        if row.starts_from:
            best = self.best(row.starts_from)
            if best is None:
                say(f"{row.task}: no {row.starts_from} run in {self.out}, so it starts from "
                    f"{model}; scores will be lower than from a model of {row.starts_from}")
            else:
                model, more = best, ("--new_head",)
        for seed in self.seeds:
            folder = self.folder(row.task, seed)
            if (folder / "eval_results.json").is_file():
                say(f"{row.task}, seed {seed}: is there already")
                continue
            interrupted = any(folder.glob("checkpoint-*"))
            again = ("--resume" if interrupted else "--overwrite_output_dir",)
            say(f"{row.task}, seed {seed}: {'goes on' if interrupted else 'starts'} from "
                f"{folder if interrupted else model}")
            _call(row, model, data, folder, ("--seed", str(seed), *again, *more, *self.flags))
            for path in folder.glob("checkpoint-*"):  # the best model lies beside them
                shutil.rmtree(path)

    def _predict(self, row: Row, data: Path) -> None:
        best = self.best(row.predicted_by)
        if best is None:
            say(f"{row.task}: needs a {row.predicted_by} run, and there is none in {self.out}")
            return
        folder = self.folder(row.task, seed_of(best))
        if any((place / "predictions" / name).is_file() for name in row.submitted
               for place in (best, folder)):
            return  # its file lay beside those of the other task, or it is done
        if not (data / "diagnostic.tsv").is_file():
            say(f"{row.task}: no diagnostic.tsv in {data}; going on without")
            return
        given = "\0".join(self.flags).replace("--max_seq_length=", "--max_seq_length\0").split("\0")
        length = [word for at, word in enumerate(given)
                  if "--max_seq_length" in given[max(at - 1, 0):at + 1]]
        _program(["run_classifier.py", "--task_name", row.task, "--data_dir", str(data),
                  "--model_name_or_path", str(best), "--output_dir",
                  str(folder), "--do_predict", "--per_gpu_eval_batch_size", "64", *length],
                 row.task)

    def best(self, task: str) -> Path | None:
        """The run of a task that is best on dev; the first of equals, None where there is none."""
        best, best_score = None, float("-inf")
        for seed in self.seeds:
            path = self.folder(task, seed) / "eval_results.json"
            if path.is_file():
                dev = next(iter(json.loads(path.read_text(encoding="utf-8"))["dev"].values()))
                if dev[dev["main"]] > best_score:
                    best, best_score = path.parent, dev[dev["main"]]
        return best

    # ---- what comes of it --------------------------------------------------------------------

    def predictions(self) -> tuple[dict[str, Path], list[str]]:
        """Files of the submission by their names in the zip, and the names of missing ones."""
        found, missing = {}, []
        for row in SUITES[self.name]:
            best = self.best(row.predicted_by or row.task)
            for name in row.submitted:
                places = [] if best is None else [
                    best / "predictions" / name,
                    self.folder(row.task, seed_of(best)) / "predictions" / name]
                place = next((path for path in places if path.is_file()), None)
                if place is None:
                    missing.append(name)
                else:
                    found[name] = place
        return found, missing

    def zip(self) -> None:
        """Write the submission, the same bytes for the same predictions."""
        found, missing = self.predictions()
        if not found:
            say("no predictions of the benchmark's test files, so there is nothing to submit")
            return
        with zipfile.ZipFile(self.out / ZIP, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in sorted(found.items()):
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
        say(f"{self.out / ZIP}: {len(found)} files, each of the seed that is best on dev")
        if missing:
            say(f"not in it: {', '.join(missing)}; the benchmark's server wants all of them")

    def summarize(self) -> None:
        runs: list[Run] = read_runs(self.out)
        lines = aligned(seed_table(runs), left=(0, 1, 2))
        (self.out / TABLE).write_text("\n".join(lines) + "\n", encoding="utf-8")
        print("\n".join(lines), flush=True)


def seed_of(folder: Path) -> int:
    return int(folder.name.removeprefix("seed-"))


def _call(row: Row, model: Path, data: Path, out: Path, more: Sequence[str]) -> None:
    places = {"MODEL_DIR": str(model), "DATA_DIR": str(data), "OUTPUT_DIR": str(out)}
    what = f"{row.task}, {out.name}"
    if row.script:
        _program(more, what, ["bash", str(ROOT / row.script)], places)
        return
    flags = [f"--{name}={value}" for name, value in row.flags.items()]
    _program(["run_classifier.py", f"--task_name={row.task}", f"--model_name_or_path={model}",
              f"--data_dir={data}", f"--output_dir={out}", "--do_train", "--do_eval",
              "--do_predict", *flags, *more], what)


def _program(arguments: Sequence[str], what: str, program: Sequence[str] = (),
             places: Mapping[str, str] | None = None) -> None:
    """Run one command. Raises `SuiteError` where it fails; it has said why."""
    python = os.environ.get("PYTHON", sys.executable)
    done = subprocess.run([*(program or [python]), *arguments], cwd=ROOT,
                          env=os.environ | {"PYTHON": python} | dict(places or {}))
    if done.returncode:
        raise SuiteError(f"{what} ended with status {done.returncode}, see above; what is finished "
                         "stays, and the same command goes on from there")


def say(message: str) -> None:
    print(f"== {message}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 after one message that says what is wrong."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if len(words) < 4 or words[0] not in SUITES or any(w.startswith("-") for w in words[:4]):
        print(f"error: expected {' or '.join(SUITES)}, then MODEL_DIR DATA_DIR OUTPUT_DIR, then "
              f"flags of run_classifier.py; found {' '.join(words) or 'nothing'}", file=sys.stderr)
        return 2
    seeds = os.environ.get("SEEDS", "").split() or ["1", "2", "3"]
    if not all(seed.isdecimal() for seed in seeds):
        print(f"error: SEEDS={' '.join(seeds)}: expected whole numbers", file=sys.stderr)
        return 2
    model, data, out = (Path(word).absolute() for word in words[1:4])
    suite = Suite(words[0], model, data, out, tuple(dict.fromkeys(map(int, seeds))),
                  tuple(words[4:]))
    try:
        rows = suite.chosen(os.environ.get("TASKS", "").split(),
                            os.environ.get("SKIP_MISSING", "") not in ("", "0"))
        suite.remember()
        for row, folder in rows.items():
            suite.run(row, folder)
        suite.summarize()
        suite.zip()
    except (SuiteError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
