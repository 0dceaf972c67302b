"""Two processes (gloo, CPU) compute what one computes. This file is also their program."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from toy import ENVIRONMENT, History, Kill, Toy, ToyData, ToyModel, same, weights_of

from callback import distributed
from callback.checkpoint import checkpoints, load_state
from callback.evaluator import predict
from callback.modelcheckpoint import ModelCheckpoint
from callback.trainer import EXIT_INTERRUPTED, Trainer

needs_gloo = pytest.mark.skipif(not torch.distributed.is_gloo_available(),
                                reason="this build of torch has no gloo")


# ---- in two processes --------------------------------------------------------------------------


def uneven(folder: Path) -> Trainer:
    """5 steps of 9 examples; the first, the rest of an epoch, leaves one rank nothing to do."""
    trainer = Toy(folder, max_steps=5, batch_size=9, micro_batch_size=2, size=28,
                  config={"precision": "fp16"}).trainer()
    trainer.state.offset = 3  # batches of 9, 9, 9 and 1
    trainer.fit()
    return trainer


def program(folder: Path) -> None:
    """Everything that a rank can get wrong, told by files that the tests below read."""
    distributed.initialize(no_cuda=True)
    rank = distributed.rank()

    with distributed.main_first():
        if rank == 0:
            time.sleep(0.2)
            (folder / "cache").write_text("built once")
        found = (folder / "cache").is_file()

    # 7 examples for two ranks, in batches of 2: uneven, and nothing may count twice.
    torch.manual_seed(3)
    data, model = ToyData(7), ToyModel()
    seen: list[int] = []
    outputs = predict(model, data, data.collate,
                      lambda out: seen.append(len(out.logits)) or out.logits.numpy(), 2,
                      data.lengths)
    none = predict(model, ToyData(1), data.collate, lambda out: out.logits.numpy(), 2)

    trainer = uneven(folder / "uneven")
    unused = trainer.model.unused.weight.grad is None and not trainer.optimizer.state[
        trainer.model.unused.weight]

    Toy(folder / "of_two", max_steps=5, micro_batch_size=4, total_steps=10,
        callbacks=[ModelCheckpoint(5)]).run()

    everything = distributed.gather({
        "found": found, "seen": sum(seen), "unused": unused, "outputs": outputs, "none": none,
        "model": weights_of(model), "samples": trainer.state.samples,
        "weights": weights_of(trainer.model)})
    if rank == 0:
        torch.save(everything, folder / "everything.pt")
    distributed.barrier()

    Toy(folder / "told", max_steps=20, callbacks=[Kill(7, signal.SIGTERM, only_rank=1)]).run()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two ranks of `program` leave behind; started once, since starting is what takes time."""
    folder = tmp_path_factory.mktemp("ranks")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
         str(Path(__file__).resolve()), str(folder)], capture_output=True, text=True, timeout=600,
        env=ENVIRONMENT)
    # torchrun has a code of its own; it tells those of the processes.
    assert done.returncode != 0, done.stderr[-3000:]
    assert f"exitcode  : {EXIT_INTERRUPTED}" in done.stderr, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def ranks(folder: Path) -> list[dict]:
    return torch.load(folder / "everything.pt", weights_only=False)  # ours, with arrays


@needs_gloo
def test_rank_0_builds_and_the_rest_wait(ranks: list[dict]) -> None:
    assert [rank["found"] for rank in ranks] == [True, True]


@needs_gloo
def test_predictions_come_in_order_and_once(ranks: list[dict]) -> None:
    data, model = ToyData(7), ToyModel()
    assert all(np.array_equal(ranks[0]["outputs"], rank["outputs"]) for rank in ranks)
    assert [rank["seen"] for rank in ranks] == [4, 3]
    assert ranks[0]["outputs"].shape == (7, 3) and ranks[1]["none"].shape == (1, 3)
    model.eval()
    model.load_state_dict(ranks[0]["model"])
    for index in range(7):
        alone = model(**data.collate([data[index]])).logits.detach().numpy()[0]
        np.testing.assert_allclose(ranks[0]["outputs"][index], alone, atol=1e-6)


@needs_gloo
def test_ranks_hold_the_same_weights_also_without_a_share(ranks: list[dict],
                                                          tmp_path: Path) -> None:
    assert same(ranks[0]["weights"], ranks[1]["weights"])
    alone = uneven(tmp_path)
    assert same(ranks[0]["weights"], weights_of(alone.model), within=2e-3)  # 16 bits
    assert ranks[0]["samples"] == ranks[1]["samples"] == alone.state.samples == 29


@needs_gloo
def test_what_is_not_used_is_not_decayed(ranks: list[dict]) -> None:
    assert [rank["unused"] for rank in ranks] == [True, True]
    assert torch.equal(ranks[0]["weights"]["unused.weight"],
                       Toy(Path()).trainer().model.unused.weight)


@needs_gloo
def test_one_batch_of_8_is_two_processes_of_4(folder: Path, tmp_path: Path) -> None:
    alone = Toy(tmp_path, max_steps=5, total_steps=10).run()
    found = load_file(checkpoints(folder / "of_two")[-1] / "model.safetensors")
    assert same(found, weights_of(alone.model), within=1e-6)


@needs_gloo
def test_a_run_of_two_processes_goes_on_in_one_with_the_same_losses(folder: Path,
                                                                    tmp_path: Path) -> None:
    whole, rest = History(), History()
    alone = Toy(tmp_path, max_steps=10, callbacks=[whole]).run()
    newest = checkpoints(folder / "of_two")[-1]
    resumed = Toy(tmp_path, max_steps=10, callbacks=[rest]).trainer(newest)
    resumed.resume(newest)
    resumed.fit()
    assert rest.steps("on_log") == [6, 7, 8, 9, 10]
    assert [values["loss"] for values in rest.logged] == pytest.approx(
        [values["loss"] for values in whole.logged[5:]], abs=1e-5)
    assert resumed.state.samples == alone.state.samples
    assert same(weights_of(resumed.model), weights_of(alone.model), within=1e-5)


@needs_gloo
def test_a_signal_to_one_process_stops_all_after_the_same_step(folder: Path) -> None:
    [saved] = checkpoints(folder / "told")
    assert saved.name == "checkpoint-8"  # all hear of it in the next step
    assert load_state(saved)["state"]["step"] == 8


# ---- in one --------------------------------------------------------------------------------------


def test_one_process_is_rank_0_of_1() -> None:
    assert (distributed.rank(), distributed.world_size(), distributed.is_main()) == (0, 1, True)
    assert distributed.gather("a") == ["a"]
    assert distributed.all_reduce_sum(torch.tensor(3.0)) == 3
    distributed.barrier()
    with distributed.main_first():
        pass


def test_no_cuda_takes_the_cpu_whatever_cards_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert distributed.select_device(no_cuda=True, local_rank=1) == torch.device("cpu")
    assert distributed.select_device(local_rank=1) == torch.device("cuda", 1)
    with pytest.raises(ValueError, match="--nproc_per_node 2"):
        distributed.select_device(local_rank=2)


def test_without_cards_the_cpu_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert distributed.initialize() == torch.device("cpu")


if __name__ == "__main__":
    program(Path(sys.argv[1]))
