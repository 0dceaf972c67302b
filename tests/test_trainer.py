"""The training loop: what is computed, whatever batches are cut into, and what is seen of it."""

from __future__ import annotations

import logging
import math
import os
import signal
from pathlib import Path

import pytest
import torch
from toy import History, Kill, Toy, ToyModel, same, weights_of

from callback.checkpoint import STATE_NAME, checkpoints, load_state
from callback.modelcheckpoint import ModelCheckpoint
from callback.plan import longest_batch
from callback.trainer import EXIT_INTERRUPTED, TrainingStopped


def spoiled(model: ToyModel, when: set[int], value: float = math.nan) -> None:
    """Make the loss of some forward passes (counted from 1) not finite."""
    forward, calls = model.forward, [0]

    def broken(**batch):
        calls[0] += 1
        output = forward(**batch)
        if calls[0] in when:
            output.loss = output.loss * value
        return output

    model.forward = broken


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "adamw_torch", "sgd"])
def test_one_batch_of_8_is_four_of_2(tmp_path: Path, optimizer: str) -> None:
    whole = Toy(tmp_path, micro_batch_size=8, optimizer=optimizer).run()
    parts = Toy(tmp_path, micro_batch_size=2, optimizer=optimizer).run()
    uneven = Toy(tmp_path, micro_batch_size=3, optimizer=optimizer).run()
    start = weights_of(Toy(tmp_path).trainer().model)
    assert not same(start, weights_of(whole.model), within=1e-3)
    assert same(weights_of(whole.model), weights_of(parts.model), within=1e-6)
    assert same(weights_of(whole.model), weights_of(uneven.model), within=1e-6)


def test_the_loss_of_a_step_is_that_of_its_whole_batch(tmp_path: Path) -> None:
    whole, parts = (Toy(tmp_path, micro_batch_size=size).trainer() for size in (8, 3))
    indices = whole.plan.epoch(0)[0]
    for trainer in (whole, parts):
        cut = [indices[at:at + trainer.config.micro_batch_size]
               for at in range(0, 8, trainer.config.micro_batch_size)]
        trainer.model.train()
        trainer.result = trainer.train_step(
            [trainer.collate([trainer.dataset[0, i] for i in part]) for part in cut])
    assert float(whole.result.loss) == pytest.approx(float(parts.result.loss), abs=1e-6)
    assert whole.result.losses.keys() == {"label", "size"}
    for name, value in whole.result.losses.items():
        assert float(value) == pytest.approx(float(parts.result.losses[name]), abs=1e-6)
    assert parts.result.samples == 8
    assert parts.result.tokens == sum(len(whole.dataset[0, i]["input_ids"]) for i in indices)
    assert parts.result.grad_norm == pytest.approx(whole.result.grad_norm, rel=1e-5)


def test_callbacks_change_no_number(tmp_path: Path) -> None:
    class Draws(History):
        def __getattribute__(self, name):
            torch.rand(3)  # as a callback that evaluates with dropout would
            return super().__getattribute__(name)

    bare = Toy(tmp_path, dropout=0.3, max_steps=9).run()
    watched = Toy(tmp_path, dropout=0.3, max_steps=9, config={"eval_steps": 2},
                  evaluate=lambda: {"a": float(torch.rand(()))},
                  callbacks=[Draws(), ModelCheckpoint(4, "a")]).run()
    assert same(weights_of(bare.model), weights_of(watched.model))


def test_workers_change_no_number(tmp_path: Path) -> None:
    alone = Toy(tmp_path, dropout=0.3, micro_batch_size=3).run()
    helped = Toy(tmp_path, dropout=0.3, micro_batch_size=3, config={"num_workers": 2}).run()
    assert same(weights_of(alone.model), weights_of(helped.model))


def test_dropout_differs_from_step_to_step_and_with_the_seed(tmp_path: Path) -> None:
    trainer = Toy(tmp_path).trainer()
    drawn = []
    for seed, step in ((1, 0), (1, 1), (2, 0), (1, 0)):
        trainer.config.seed, trainer.state.step = seed, step
        trainer._seed()
        drawn.append(torch.rand(4).tolist())
    assert drawn[0] == drawn[3]
    assert len({tuple(d) for d in drawn}) == 3


def test_logs_and_evaluates_once_an_optimizer_step_never_at_step_0(tmp_path: Path) -> None:
    history = History()
    Toy(tmp_path, max_steps=25, batch_size=8, micro_batch_size=2, callbacks=[history],
        evaluate=lambda: {"a": 1.0}, config={"logging_steps": 10, "eval_steps": 5}).run()
    assert history.steps("on_log") == [10, 20, 25]
    assert history.steps("on_evaluate") == [5, 10, 15, 20, 25]
    assert history.steps("on_step_end") == list(range(1, 26))
    assert history.steps("on_train_begin") == [0] and history.steps("on_train_end") == [25]
    assert history.steps("on_epoch_end") == [4, 8, 12, 16, 20, 24]


def test_evaluates_after_every_epoch_and_at_the_end(tmp_path: Path) -> None:
    history = History()
    Toy(tmp_path, max_steps=10, callbacks=[history], evaluate=lambda: {"a": 1.0}).run()
    assert history.steps("on_evaluate") == [4, 8, 10]


def test_a_log_is_the_mean_since_the_last_one(tmp_path: Path) -> None:
    every, third = History(), History()
    Toy(tmp_path, max_steps=6, callbacks=[every]).run()
    Toy(tmp_path, max_steps=6, callbacks=[third], config={"logging_steps": 3}).run()
    losses = [values["loss"] for values in every.logged]
    assert [values["loss"] for values in third.logged] == pytest.approx(
        [sum(losses[:3]) / 3, sum(losses[3:]) / 3])
    assert third.logged[0]["loss"] == pytest.approx(
        third.logged[0]["label"] + third.logged[0]["size"])
    assert third.logged[0]["tokens_per_second"] > 0


def test_the_short_last_batch_is_kept(tmp_path: Path) -> None:
    trainer = Toy(tmp_path, max_steps=4).run()  # 30 examples: 8 + 8 + 8 + 6
    assert trainer.state.samples == 30
    assert trainer.state.tokens == trainer.dataset.lengths.sum()
    assert (trainer.state.epoch, trainer.state.offset) == (1, 0)


def test_gradients_are_clipped_by_their_global_norm(tmp_path: Path) -> None:
    # For SGD without momentum (its first step), the update is the clipped gradient times the rate.
    moved = {}
    for limit in (0.0, 0.01):
        trainer = Toy(tmp_path, max_steps=1, total_steps=4, optimizer="sgd",
                      config={"max_grad_norm": limit}).trainer()
        for group in trainer.optimizer.param_groups:
            group["weight_decay"] = 0.0
        before = weights_of(trainer.model)
        history = History()
        trainer.callbacks.append(history)
        trainer.fit()
        moved[limit] = math.sqrt(sum(float(((v - before[n]) ** 2).sum())
                                     for n, v in trainer.model.state_dict().items()))
        rate, norm = history.logged[0]["learning_rate"], history.logged[0]["grad_norm"]
        assert moved[limit] == pytest.approx(rate * (limit or norm), rel=1e-3)
        assert norm > 0.1  # what is reported is the norm before clipping


def test_the_first_update_has_a_rate_and_the_last_one_none(tmp_path: Path) -> None:
    history = History()
    Toy(tmp_path, max_steps=4, learning_rate=0.1, callbacks=[history]).run()  # warm-up of 2
    assert [values["learning_rate"] for values in history.logged] == pytest.approx(
        [0.05, 0.05, 0.025, 0.0])  # update / warm-up; from update 2 on 1 - update / all


# ---- steps that are not finite ---------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_step_that_is_not_finite_is_skipped_counted_and_told(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, value: float) -> None:
    history = History()
    trainer = Toy(tmp_path, max_steps=4, micro_batch_size=4, callbacks=[history],
                  config={"logging_steps": 2}).trainer()
    spoiled(trainer.model, {3}, value)  # the first micro-batch of step 2
    seen = {}
    history_step = trainer._after_step

    def remember(result):
        seen[trainer.state.step] = weights_of(trainer.model)
        history_step(result)

    trainer._after_step = remember
    trainer.fit()
    assert same(seen[1], seen[2]) and not same(seen[2], seen[3])
    assert trainer.state.bad_steps == 1 and trainer.state.bad_in_a_row == 0
    assert "step 2: gradients are not finite" in caplog.text
    assert all(math.isfinite(v["loss"]) for v in history.logged)  # the mean leaves it out
    assert history.logged[-1]["bad_steps"] == 1
    assert all(torch.isfinite(w).all() for w in trainer.model.state_dict().values())


def test_many_bad_steps_in_a_row_stop_and_name_the_last_good_checkpoint(tmp_path: Path) -> None:
    history = History()
    trainer = Toy(tmp_path, max_steps=20, callbacks=[ModelCheckpoint(2), history],
                  config={"max_bad_steps": 3}).trainer()
    spoiled(trainer.model, {3, 5, 6, 7})
    with pytest.raises(TrainingStopped, match=r"3 steps in a row.*up to step 7.*checkpoint-6"):
        trainer.fit()
    assert trainer.state.bad_steps == 4
    assert history.steps("on_train_end") == [7]  # bars and files are closed all the same


# ---- precision -------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_16_bits_train_about_the_same(tmp_path: Path, precision: str) -> None:
    full = Toy(tmp_path, max_steps=6).run()
    half = Toy(tmp_path, max_steps=6, config={"precision": precision}).run()
    assert half.state.bad_steps == 0
    assert same(weights_of(full.model), weights_of(half.model), within=0.05)
    assert not same(weights_of(full.model), weights_of(half.model))
    assert all(w.dtype == torch.float32 for w in half.model.state_dict().values())


def test_fp16_halves_its_scale_after_an_overflow_and_keeps_it_in_the_checkpoint(
        tmp_path: Path) -> None:
    trainer = Toy(tmp_path, max_steps=3, total_steps=9, config={"precision": "fp16"}).trainer()
    spoiled(trainer.model, {2}, math.inf)
    trainer.fit()
    assert trainer.state.bad_steps == 1
    assert trainer.scaler.get_scale() == 2.0 ** 15
    path = trainer.save()
    again = Toy(tmp_path, max_steps=9, config={"precision": "fp16"}).trainer(path)
    assert again.resume(path) and again.scaler.get_scale() == 2.0 ** 15


def test_an_unknown_precision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--precision int8: expected fp32, bf16, fp16"):
        Toy(tmp_path, config={"precision": "int8"}).trainer()


# ---- the longest batch first -----------------------------------------------------------------


def test_probing_touches_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = Toy(tmp_path, dropout=0.3, max_steps=3).trainer()
    before, random = weights_of(trainer.model), torch.get_rng_state()
    trainer.model.eval()
    with caplog.at_level(logging.INFO):
        trainer.probe(longest_batch(trainer.dataset.lengths, 4))
    assert f"4 x {trainer.dataset.lengths.max()} tokens, fits" in caplog.text
    assert same(before, weights_of(trainer.model))
    assert torch.equal(random, torch.get_rng_state())
    assert all(p.grad is None for p in trainer.model.parameters())
    assert not trainer.optimizer.state and not trainer.model.training
    assert trainer.state.step == 0


def test_too_long_a_batch_says_what_to_do(tmp_path: Path) -> None:
    trainer = Toy(tmp_path).trainer()

    def forward(**batch):
        raise torch.OutOfMemoryError("CUDA out of memory")

    trainer.model.forward = forward
    with pytest.raises(TrainingStopped, match=r"4 x 11 tokens.*--per_gpu_train_batch_size"):
        trainer.probe(longest_batch(trainer.dataset.lengths, 4))


# ---- restarts --------------------------------------------------------------------------------


def test_a_checkpoint_without_training_state_starts_clean(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = Toy(tmp_path, max_steps=2).run().save()
    (path / STATE_NAME).unlink()
    trainer = Toy(tmp_path, max_steps=2).trainer(path)
    with caplog.at_level(logging.INFO):
        assert not trainer.resume(path)
    assert "no training state" in caplog.text and "step 0" in caplog.text
    assert trainer.state.step == 0
    trainer.fit()
    assert trainer.state.step == 2


def test_resuming_with_other_settings_lists_all_of_them(tmp_path: Path) -> None:
    path = Toy(tmp_path, max_steps=2).run().save()
    trainer = Toy(tmp_path, max_steps=7, batch_size=4, config={"seed": 5}).trainer(path)
    with pytest.raises(ValueError) as error:
        trainer.resume(path)
    for told in ("seed: checkpoint 42, this run 5", "batch_size: checkpoint 8, this run 4",
                 "total_steps: checkpoint 2, this run 7"):
        assert told in str(error.value)
    assert "warmup" not in str(error.value)
    assert trainer.state.step == 0


def test_micro_batches_and_workers_may_change_on_resuming(tmp_path: Path) -> None:
    whole = Toy(tmp_path, max_steps=8).run()
    path = Toy(tmp_path, max_steps=4, total_steps=8).run().save()
    rest = Toy(tmp_path, max_steps=8, micro_batch_size=2,
               config={"num_workers": 1}).trainer(path)
    rest.resume(path)
    rest.fit()
    assert same(weights_of(whole.model), weights_of(rest.model), within=1e-6)


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "adamw_torch", "sgd"])
@pytest.mark.parametrize("stop", [3, 4, 5])  # within an epoch, at its end, in the next one
def test_resuming_is_exact(tmp_path: Path, optimizer: str, stop: int) -> None:
    settings = {"dropout": 0.3, "optimizer": optimizer, "micro_batch_size": 3}
    whole = Toy(tmp_path, max_steps=9, **settings).run()
    path = Toy(tmp_path, max_steps=stop, total_steps=9, **settings).run().save()
    rest = Toy(tmp_path, max_steps=9, **settings).trainer(path)
    torch.rand(100)
    assert rest.resume(path)
    rest.fit()
    assert same(weights_of(whole.model), weights_of(rest.model))
    assert (whole.state.epoch, whole.state.offset) == (rest.state.epoch, rest.state.offset)
    assert whole.state.samples == rest.state.samples and whole.state.tokens == rest.state.tokens


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_the_step_saves_and_exits(tmp_path: Path, number: int) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    history = History()
    trainer = Toy(tmp_path, max_steps=9, dropout=0.3, callbacks=[history]).trainer()
    step = trainer.train_step

    def told_within_step_3(batches):
        if trainer.state.step == 2:
            os.kill(os.getpid(), number)
        return step(batches)

    trainer.train_step = told_within_step_3
    with pytest.raises(SystemExit) as end:
        trainer.fit()
    assert end.value.code == EXIT_INTERRUPTED == 75
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    [path] = checkpoints(tmp_path)
    assert path.name == "checkpoint-3" and load_state(path)["state"]["step"] == 3
    assert history.steps("on_train_end") == [3]
    rest = Toy(tmp_path, max_steps=9, dropout=0.3).trainer(path)
    rest.resume(path)
    rest.fit()
    whole = Toy(tmp_path, max_steps=9, dropout=0.3).run()
    assert same(weights_of(whole.model), weights_of(rest.model))


def test_a_signal_after_a_save_does_not_save_again(tmp_path: Path) -> None:
    history = History()
    trainer = Toy(tmp_path, max_steps=9, callbacks=[
        Kill(4, signal.SIGTERM), ModelCheckpoint(2), history]).trainer()
    with pytest.raises(SystemExit):
        trainer.fit()
    assert history.steps("on_save") == [2, 4]


def test_callbacks_of_one_class_keep_their_states_apart(tmp_path: Path) -> None:
    first, second = ModelCheckpoint(metric="a"), ModelCheckpoint(metric="b", lower_is_better=True)
    trainer = Toy(tmp_path, max_steps=2, callbacks=[first, second],
                  evaluate=lambda: {"a": 1.0, "b": 2.0}).run()
    state = trainer.state_dict()
    again = [ModelCheckpoint(metric="a"), ModelCheckpoint(metric="b", lower_is_better=True)]
    Toy(tmp_path, max_steps=2, callbacks=again).trainer().load_state_dict(state)
    assert [callback.best_value for callback in again] == [1.0, 2.0]
