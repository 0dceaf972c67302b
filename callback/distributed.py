"""Ranks: every question about other processes is asked here. One process is rank 0 of 1."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def is_main() -> bool:
    return rank() == 0


def select_device(no_cuda: bool = False, local_rank: int = 0) -> torch.device:
    """A card for each process of a machine; the CPU where there is none, or with no_cuda.

    Raises ValueError where there are more processes than cards.
    """
    if no_cuda or not torch.cuda.is_available():
        return torch.device("cpu")
    cards = torch.cuda.device_count()
    if local_rank >= cards:
        raise ValueError(f"process {local_rank + 1} of this machine has no card of its own, "
                         f"{cards} can be seen: give torchrun --nproc_per_node {cards}, or "
                         "--no_cuda to train on the CPU")
    return torch.device("cuda", local_rank)


def initialize(no_cuda: bool = False) -> torch.device:
    """Join the processes that torchrun started, if it did, and choose this one's device.

    nccl between GPUs, gloo between CPUs.
    """
    device = select_device(no_cuda, int(os.environ.get("LOCAL_RANK", 0)))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device


def shutdown() -> None:
    """Leave the group, so that the processes end without a complaint."""
    if dist.is_initialized():
        dist.destroy_process_group()


def barrier() -> None:
    if world_size() > 1:
        dist.barrier()


def all_reduce_sum(tensor: Tensor) -> Tensor:
    """The sum over ranks, in place."""
    if world_size() > 1:
        dist.all_reduce(tensor)
    return tensor


def gather(value: Any) -> list[Any]:
    """The values of all ranks, in their order, on every rank."""
    if world_size() == 1:
        return [value]
    values: list[Any] = [None] * world_size()
    dist.all_gather_object(values, value)
    return values


@contextmanager
def main_first() -> Iterator[None]:
    """Rank 0 does what is inside before the others do: they find what it built."""
    if not is_main():
        barrier()
    yield
    if is_main():
        barrier()


def sum_gradients(parameters: list[Tensor]) -> None:
    """Sum gradients over ranks, as one flat buffer. One that no rank has stays None.

    A shared layer's gradient is complete only when the backward pass is, so there is nothing
    that DistributedDataParallel could overlap; one reduction at the end is as fast, and exact for
    ranks with fewer or no micro-batches.
    """
    if world_size() == 1:
        return
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    owners = torch.tensor([p.grad is not None for p in parameters], dtype=grads[0].dtype)
    flat = torch.cat([*(g.reshape(-1) for g in grads), owners.to(grads[0].device)])
    dist.all_reduce(flat)
    *sums, owners = flat.split([*(p.numel() for p in parameters), len(parameters)])
    for p, total, owned in zip(parameters, sums, owners.tolist(), strict=True):
        p.grad = total.view_as(p) if owned else None
