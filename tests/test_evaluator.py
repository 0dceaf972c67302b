"""Evaluation runs in whatever order is fast and answers in the order of the data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy import ToyData, ToyModel

from callback.evaluator import predict


def logits(output) -> np.ndarray:
    return output.logits.float().numpy()


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_predictions_come_in_the_order_of_the_data(batch_size: int, sort: bool) -> None:
    torch.manual_seed(0)
    data, model = ToyData(11), ToyModel(dropout=0.5).eval()
    with torch.no_grad():
        alone = np.concatenate([logits(model(**data.collate([data[i]]))) for i in range(11)])
    model.train()
    found = predict(model, data, data.collate, logits, batch_size, data.lengths if sort else None)
    np.testing.assert_allclose(found, alone, atol=1e-6)  # without dropout
    assert found.shape == (11, 3) and not model.training


def test_the_longest_go_first_and_together() -> None:
    data, seen = ToyData(11), []

    def collate(features):
        seen.append([len(f["input_ids"]) for f in features])
        return data.collate(features)

    predict(ToyModel(), data, collate, logits, 4, data.lengths)
    flat = [length for batch in seen for length in batch]
    assert flat == sorted(flat, reverse=True) and [len(batch) for batch in seen] == [4, 4, 3]


def test_what_is_kept_may_have_any_shape() -> None:
    data = ToyData(5)
    found = predict(ToyModel(), data, data.collate, lambda out: out.logits.argmax(-1).numpy(), 2)
    assert found.shape == (5,) and found.dtype == np.int64


def test_no_gradient_is_kept() -> None:
    data, model, kept = ToyData(3), ToyModel(), []
    predict(model, data, data.collate, lambda out: kept.append(out.logits) or logits(out), 2)
    assert not any(output.requires_grad for output in kept)


def test_16_bits_are_used_where_asked_for() -> None:
    data, model, kinds = ToyData(3), ToyModel(), []
    predict(model, data, data.collate, lambda out: kinds.append(out.logits.dtype) or logits(out),
            2, precision="bf16")
    assert set(kinds) == {torch.bfloat16}


def test_an_empty_data_set_is_an_error() -> None:
    with pytest.raises(ValueError, match="no example"):
        predict(ToyModel(), ToyData(0), ToyData.collate, logits, 2)
