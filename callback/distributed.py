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


def initialize(no_cuda: bool = False) -> torch.device:
    """Join the processes that torchrun started, if it did, and choose this one's device.

    nccl between GPUs, gloo between CPUs. With no_cuda the CPU is used, whatever cards there are.
    """
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    cuda = not no_cuda and torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if cuda else "gloo")
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
    """Sum gradients over ranks as one flat buffer; a parameter without one counts as zero.

    A shared layer's gradient is complete only when the backward pass is, so there is nothing
    that DistributedDataParallel could overlap; one reduction at the end is as fast, and exact for
    ranks with fewer or no micro-batches.
    """
    if world_size() == 1:
        return
    for p in parameters:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    dist.all_reduce(flat)
    at = 0
    for p in parameters:
        p.grad.copy_(flat[at:at + p.numel()].view_as(p))
        at += p.numel()
