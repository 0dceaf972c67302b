"""What a person and a disk see of a run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toy import History, Toy

from callback.base import Callback
from callback.checkpoint import checkpoints, load_state
from callback.earlystopping import EarlyStopping
from callback.health import LossSpike, NotLearning
from callback.modelcheckpoint import ModelCheckpoint
from callback.progressbar import ProgressBar
from callback.trainingmonitor import TrainingMonitor, draw_curves, read_metrics

EVERY_STEP = {"eval_steps": 1}


def names(folder: Path) -> list[str]:
    return [path.name for path in checkpoints(folder)]


def scores(*values: float) -> Any:
    """An evaluation that gives these numbers, one after the other."""
    given = iter(values)
    return lambda: {"accuracy": next(given), "loss": 1.0}


def at_step(step: int) -> Any:
    """A stand-in for a trainer, where a callback looks at the step alone."""
    return SimpleNamespace(state=SimpleNamespace(step=step), should_stop=False)


# ---- saving --------------------------------------------------------------------------------------


def test_saves_every_so_many_steps_and_never_at_step_0(tmp_path: Path) -> None:
    Toy(tmp_path, max_steps=7, callbacks=[ModelCheckpoint(3)]).run()
    assert names(tmp_path) == ["checkpoint-3", "checkpoint-6"]


def test_the_best_is_kept_whatever_is_rotated_away(tmp_path: Path) -> None:
    keeper = ModelCheckpoint(1, "accuracy", save_total_limit=2)
    Toy(tmp_path, max_steps=6, callbacks=[keeper], config=EVERY_STEP,
        evaluate=scores(math.nan, 0.9, 0.5, math.nan, 0.9, 0.3)).run()
    assert names(tmp_path) == ["checkpoint-2", "checkpoint-5", "checkpoint-6"]
    assert (keeper.best, keeper.best_value, keeper.best_step) == (
        tmp_path / "checkpoint-2", 0.9, 2)


def test_without_periodic_saves_the_improvements_are_saved(tmp_path: Path) -> None:
    keeper = ModelCheckpoint(0, "accuracy", lower_is_better=True)
    Toy(tmp_path, max_steps=4, callbacks=[keeper], config=EVERY_STEP,
        evaluate=scores(3.0, 4.0, 2.0, 2.0)).run()
    assert names(tmp_path) == ["checkpoint-1", "checkpoint-3"] and keeper.best_step == 3


def test_the_best_survives_a_restart_and_a_moved_folder(tmp_path: Path) -> None:
    first = tmp_path / "first"
    Toy(first, max_steps=3, total_steps=6, config=EVERY_STEP, evaluate=scores(0.2, 0.8, 0.4),
        callbacks=[ModelCheckpoint(1, "accuracy", save_total_limit=1)]).run()
    assert names(first) == ["checkpoint-2", "checkpoint-3"]
    moved = first.rename(tmp_path / "moved")
    keeper = ModelCheckpoint(1, "accuracy", save_total_limit=1)
    trainer = Toy(moved, max_steps=6, config=EVERY_STEP, evaluate=scores(0.5, 0.6, 0.7),
                  callbacks=[keeper]).trainer(moved / "checkpoint-3")
    trainer.resume(moved / "checkpoint-3")
    trainer.fit()
    assert keeper.best == moved / "checkpoint-2"
    assert names(moved) == ["checkpoint-2", "checkpoint-6"]


def test_a_metric_that_evaluation_does_not_give_is_an_error(tmp_path: Path) -> None:
    for callback in (ModelCheckpoint(metric="f1"), EarlyStopping("f1", 2)):
        with pytest.raises(KeyError, match="f1.*it gives accuracy, loss"):
            Toy(tmp_path, callbacks=[callback], evaluate=scores(0.5)).run()


def test_a_checkpoint_holds_the_model_and_the_training_state(tmp_path: Path) -> None:
    path = Toy(tmp_path, max_steps=2).run().save()
    assert sorted(p.name for p in path.iterdir()) == ["model.safetensors", "training_state.pt"]
    state = load_state(path)
    assert state["state"]["step"] == 2 and state["fingerprint"]["batch_size"] == 8


# ---- stopping ------------------------------------------------------------------------------------


def test_stops_after_evaluations_without_a_better_score(tmp_path: Path) -> None:
    trainer = Toy(tmp_path, max_steps=9, config=EVERY_STEP,
                  callbacks=[EarlyStopping("accuracy", 3)],
                  evaluate=scores(math.nan, 0.4, 0.6, 0.6, 0.5, math.nan, 0.9)).run()
    assert trainer.state.step == 6


def test_lower_may_be_better(tmp_path: Path) -> None:
    trainer = Toy(tmp_path, max_steps=9, config=EVERY_STEP,
                  callbacks=[EarlyStopping("accuracy", 2, lower_is_better=True)],
                  evaluate=scores(5.0, 4.0, 6.0, 3.0, 3.5, 7.0, 1.0)).run()
    assert trainer.state.step == 6


def test_a_run_that_had_stopped_does_not_go_on(tmp_path: Path) -> None:
    path = Toy(tmp_path, max_steps=9, config=EVERY_STEP, callbacks=[EarlyStopping("accuracy", 2)],
               evaluate=scores(0.5, 0.4, 0.3)).run().save()
    trainer = Toy(tmp_path, max_steps=9, config=EVERY_STEP,
                  callbacks=[EarlyStopping("accuracy", 2)], evaluate=scores(1.0)).trainer(path)
    trainer.resume(path)
    assert trainer.fit().step == 3


def test_waiting_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = Toy(tmp_path, max_steps=2, total_steps=9, config=EVERY_STEP,
               callbacks=[EarlyStopping("accuracy", 2)], evaluate=scores(0.5, 0.4)).run().save()
    trainer = Toy(tmp_path, max_steps=9, config=EVERY_STEP,
                  callbacks=[EarlyStopping("accuracy", 2)],
                  evaluate=scores(0.45, 0.9)).trainer(path)
    trainer.resume(path)
    assert trainer.fit().step == 3


# ---- warnings ------------------------------------------------------------------------------------


def test_a_spike_of_the_loss_is_told_once_it_is_one(caplog: pytest.LogCaptureFixture) -> None:
    watch = LossSpike(factor=2.0)
    for step, loss in enumerate([math.nan] * 9 + [4.0, 4.2, 3.9, 4.1, 4.0, 7.9]):
        watch.on_log(at_step(step), {"loss": loss})
    assert not caplog.text
    again = LossSpike(factor=2.0)
    again.load_state_dict(json.loads(json.dumps(watch.state_dict())))  # plain values
    again.on_log(at_step(15), {"loss": 9.0})
    assert "step 15: loss 9.000" in caplog.text and "learning rate" in caplog.text


@pytest.mark.parametrize("metrics, told", [
    ({"mlm_accuracy": 0.07, "sop_accuracy": 0.8}, ["mlm_accuracy 0.070 (guessing: 0.060)"]),
    ({"mlm_accuracy": 0.3, "sop_accuracy": 0.505}, ["sop_accuracy 0.505 (guessing: 0.500)"]),
    ({"mlm_accuracy": 0.3, "sop_accuracy": 0.6}, []), ({"mlm_accuracy": 0.3}, [])])
def test_a_run_at_chance_is_told(caplog: pytest.LogCaptureFixture, metrics: dict,
                                 told: list[str]) -> None:
    watch = NotLearning(1000, {"mlm_accuracy": (0.06, 0.02), "sop_accuracy": (0.5, 0.02)},
                        "check the learning rate")
    watch.on_evaluate(at_step(999), {"mlm_accuracy": 0.0, "sop_accuracy": 0.0})
    assert not caplog.text  # too early to tell
    watch.on_evaluate(at_step(1000), metrics)
    watch.on_evaluate(at_step(2000), metrics)
    assert caplog.text.count("not learning") == bool(told)  # once
    assert all(line in caplog.text for line in told)
    assert ("check the learning rate" in caplog.text) == bool(told)
    again = NotLearning(1000, watch.chance, "")
    again.load_state_dict(watch.state_dict())
    assert again.warned == bool(told)


# ---- the record ----------------------------------------------------------------------------------


def monitored(folder: Path, **changes: Any) -> Toy:
    return Toy(folder, evaluate=lambda: {"accuracy": 0.5}, callbacks=[TrainingMonitor(folder)],
               config={"logging_steps": 2, "eval_steps": 3}, **changes)


def test_the_record_of_a_run(tmp_path: Path) -> None:
    monitored(tmp_path, max_steps=7).run()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["step"]) for line in lines] == [
        ("train", 2), ("eval", 3), ("train", 4), ("train", 6), ("eval", 6), ("train", 7),
        ("eval", 7)]
    assert {"loss", "label", "size", "learning_rate", "grad_norm", "tokens_per_second",
            "samples_per_second"} <= lines[0].keys()
    assert (tmp_path / "curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert not list(tmp_path.glob(".*"))


def test_tensorboard_has_the_numbers(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    monitored(tmp_path, max_steps=6).run()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [e.step for e in events.Scalars("train/loss")] == [2, 4, 6]
    assert [e.value for e in events.Scalars("eval/accuracy")] == [0.5, 0.5]


def test_a_resumed_run_goes_on_with_its_record(tmp_path: Path) -> None:
    trainer = monitored(tmp_path, max_steps=5, total_steps=8).trainer()
    trainer.callbacks.append(ModelCheckpoint(4))
    trainer.fit()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "ki')  # a crash in the middle of a line
    again = monitored(tmp_path, max_steps=8)
    again.callbacks.append(ModelCheckpoint())  # another order and number of callbacks
    trainer = again.trainer(tmp_path / "checkpoint-4")
    trainer.resume(tmp_path / "checkpoint-4")
    trainer.fit()
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [(line["kind"], line["step"]) for line in lines] == [
        ("train", 2), ("eval", 3), ("train", 4), ("train", 6), ("eval", 6), ("train", 8),
        ("eval", 8)]


def test_numbers_that_are_not_finite_are_null_on_disk(tmp_path: Path) -> None:
    monitor = TrainingMonitor(tmp_path, tensorboard=False)
    monitor.on_log(at_step(1), {"loss": math.inf, "label": 1.5})
    monitor.on_log(at_step(2), {"loss": 2.0, "label": math.nan})
    text = (tmp_path / "metrics.jsonl").read_text()
    assert "NaN" not in text and "Infinity" not in text and text.count("null") == 2
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert math.isnan(lines[0]["loss"]) and lines[1]["loss"] == 2.0
    assert (tmp_path / "curves.png").is_file()


def test_nothing_recorded_draws_nothing(tmp_path: Path) -> None:
    draw_curves([], tmp_path / "curves.png")
    assert read_metrics(tmp_path / "metrics.jsonl") == [] and not list(tmp_path.iterdir())


def test_the_picture_is_drawn_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr("callback.trainingmonitor.draw_curves", lambda *a: drawn.append(a))
    monitored(tmp_path, max_steps=8).run()
    assert len(drawn) == 2  # with the first numbers, and at the end


def test_the_bar_shows_what_a_person_asks_for(tmp_path: Path,
                                              capsys: pytest.CaptureFixture) -> None:
    bar = ProgressBar("pretraining", flops_per_token=1e6, peak_flops=1e12)
    Toy(tmp_path, max_steps=4, callbacks=[bar]).run()
    shown = capsys.readouterr().err
    assert "pretraining: 100%" in shown and "4/4" in shown
    for name in ("loss=", "lr=", "ex/s=", "tok/s=", "MFU=", "GB=", "step/s"):
        assert name in shown, name


def test_the_bar_of_a_resumed_run_starts_where_it_was(tmp_path: Path,
                                                      capsys: pytest.CaptureFixture) -> None:
    path = Toy(tmp_path, max_steps=3, total_steps=4).run().save()
    trainer = Toy(tmp_path, max_steps=4, callbacks=[ProgressBar()]).trainer(path)
    trainer.resume(path)
    trainer.fit()
    shown = capsys.readouterr().err
    assert "3/4" in shown and "4/4" in shown and "0/4" not in shown


def test_hooks_come_in_the_order_of_the_list(tmp_path: Path) -> None:
    told = []

    class Tells(Callback):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_step_end(self, trainer: Any, result: Any) -> None:
            told.append(self.name)

    Toy(tmp_path, max_steps=2, callbacks=[Tells("a"), Tells("b"), History()]).run()
    assert told == ["a", "b", "a", "b"]


def test_guesses_and_training_parts_are_drawn_in_the_panel_that_they_belong_to(tmp_path,
                                                                               monkeypatch):
    import matplotlib.figure

    from callback.trainingmonitor import draw_curves
    titles: list[str] = []
    add = matplotlib.figure.Figure.add_subplot

    def noted(self, *place):
        axes = add(self, *place)
        monkeypatch.setattr(axes, "set_title", titles.append)
        return axes

    monkeypatch.setattr(matplotlib.figure.Figure, "add_subplot", noted)
    draw_curves([{"step": 1, "kind": "train", "loss": 2.0, "mlm": 1.5, "sop_pairs": 9},
                 {"step": 1, "kind": "eval", "mlm_loss": 1.6, "mlm_accuracy": 0.2,
                  "mlm_baseline": 0.1}], tmp_path / "curves.png")
    assert titles == ["loss", "mlm loss", "mlm accuracy"]
