"""Running a model over a data set, on one rank or many, in the order of the data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from callback import distributed
from callback.trainer import PRECISIONS


@torch.inference_mode()
def predict(model: nn.Module, dataset: Any, collate: Callable[[list[Any]], dict[str, Any]],
            keep: Callable[[Any], np.ndarray], batch_size: int,
            lengths: Sequence[int] | None = None, device: torch.device | None = None,
            precision: str = "fp32", description: str = "evaluating") -> np.ndarray:
    """What `keep` takes of every output, (N, …) in the order of the data set, on every rank.

    keep: model output of B examples -> (B, …). Examples of like length go together where
    `lengths` are given. Each rank runs its own share, without filling up: no example counts twice.
    Raises ValueError where there is no example.
    """
    if not len(dataset):
        raise ValueError(f"{description}: the data set has no example")
    device = device or torch.device("cpu")
    model.eval()
    order = np.arange(len(dataset)) if lengths is None else np.argsort(
        np.asarray(lengths), kind="stable")[::-1]  # longest first: if memory fails, at once
    own = order[distributed.rank()::distributed.world_size()]
    dtype = PRECISIONS[precision]
    kept = []
    with tqdm(total=len(own), desc=description, unit=" examples", leave=False,
              disable=not distributed.is_main()) as bar:
        for at in range(0, len(own), batch_size):
            indices = own[at:at + batch_size]
            batch = {name: value.to(device) for name, value in
                     collate([dataset[int(i)] for i in indices]).items()}
            with torch.autocast(device.type, dtype, enabled=dtype is not None):
                kept.append(keep(model(**batch)))
            bar.update(len(indices))
    parts = distributed.gather((own, np.concatenate(kept) if kept else None))
    filled = [(indices, values) for indices, values in parts if values is not None]
    result = np.empty((len(dataset), *filled[0][1].shape[1:]), filled[0][1].dtype)
    for indices, values in filled:
        result[indices] = values
    return result
