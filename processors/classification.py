"""Sequence classification and regression: examples to features, logits to scores.

`ClassificationData` is what the recipe needs to know of one split. Another head (spans, choices,
entities) is another class with the same methods.

Letters: N examples, B batch, T tokens, L labels.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metrics.classification import METRICS, Scores, score
from model.tokenization_albert import AlbertTokenizer
from processors.base import LoadedSplit, Task
from processors.submission import Prediction, write_predictions

logger = logging.getLogger(__name__)


class ClassificationData:
    """One split as a map-style data set: `data[(epoch, index)]` or `data[index]` -> features.

    The text is tokenised once, in one call for all examples; nothing is kept on disk, so nothing
    can go stale. `lengths` (N,) counts the tokens of each example with [CLS] and [SEP].
    """

    def __init__(self, task: Task, split: LoadedSplit, tokenizer: AlbertTokenizer,
                 max_length: int) -> None:
        self.task, self.split = task, split
        self.main = METRICS[task.metric].main  # the value that decides which model is best
        self.higher_is_better = METRICS[task.metric].higher_is_better
        self.pad_token_id = tokenizer.pad_token_id
        pairs = [e.text_b for e in split.examples] if "text_b" in task.columns else None
        encoding = tokenizer([e.text_a for e in split.examples], pairs, max_length=max_length)
        self.input_ids = encoding.input_ids
        self.token_type_ids = encoding.token_type_ids
        self.truncated = encoding.truncated
        self.lengths = np.array([len(ids) for ids in encoding.input_ids])
        self.labels = [e.label for e in split.examples] if split.labelled else None
        if self.truncated:
            logger.warning("%s: %d of %d examples are longer than %d tokens and were cut",
                           split.path, self.truncated, len(split), max_length)

    def __len__(self) -> int:
        return len(self.input_ids)

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, Any]:
        index = key[1] if isinstance(key, tuple) else key
        features = {"input_ids": self.input_ids[index],
                    "token_type_ids": self.token_type_ids[index]}
        if self.labels is not None:
            features["labels"] = self.labels[index]
        return features

    def collate(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """B features -> input_ids, attention_mask, token_type_ids (B, T); labels (B,)."""
        length = max(len(f["input_ids"]) for f in features)
        batch = {
            "input_ids": padded([f["input_ids"] for f in features], length, self.pad_token_id),
            "attention_mask": padded([[1] * len(f["input_ids"]) for f in features], length, 0),
            "token_type_ids": padded([f["token_type_ids"] for f in features], length, 0),
        }
        if "labels" in features[0]:
            kind = torch.float32 if self.task.is_regression else torch.int64
            batch["labels"] = torch.tensor([f["labels"] for f in features], dtype=kind)
        return batch

    def keep(self, output: Any) -> np.ndarray:
        """What evaluation remembers of a forward pass: the logits (B, L)."""
        return output.logits.float().cpu().numpy()

    def score(self, logits: np.ndarray) -> Scores:
        """(N, L) logits -> scores. Raises `MetricError` where the split has no labels."""
        labels = self.labels if self.labels is not None else [None] * len(self)
        return score(self.task.metric, self._chosen(logits), labels, self.task.labels)

    def loss(self, logits: np.ndarray) -> float:
        """(N, L) logits -> mean cross entropy, or squared error for numbers."""
        labels = np.array(self.labels)
        if self.task.is_regression:
            return float(((logits[:, 0] - labels) ** 2).mean())
        shifted = logits - logits.max(axis=1, keepdims=True)  # (N, L)
        chosen = shifted[np.arange(len(labels)), labels]  # (N,)
        return float((np.log(np.exp(shifted).sum(axis=1)) - chosen).mean())

    def predict(self, logits: np.ndarray) -> list[Prediction]:
        """(N, L) logits -> one prediction an example, in the order of the file."""
        guids = [example.guid for example in self.split.examples]
        chosen = self._chosen(logits)
        if self.task.is_regression:
            if self.task.label_range is not None:
                chosen = chosen.clip(*self.task.label_range)
            return [Prediction(guid, float(value)) for guid, value in zip(guids, chosen,
                                                                         strict=True)]
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))  # (N, L)
        surest = shifted.max(axis=1) / shifted.sum(axis=1)  # (N,)
        return [Prediction(guid, self.task.labels[label], float(probability))
                for guid, label, probability in zip(guids, chosen, surest, strict=True)]

    def write(self, logits: np.ndarray, path: Path) -> None:
        """Put the predictions of (N, L) logits into the file that the benchmark wants."""
        write_predictions(path, self.predict(logits), self.task.submission_style)

    def _chosen(self, logits: np.ndarray) -> np.ndarray:
        return logits[:, 0] if self.task.is_regression else logits.argmax(axis=1)


def padded(rows: Sequence[Sequence[int]], length: int, value: int) -> Tensor:
    """Rows of different lengths -> (B, length), filled up with `value`."""
    array = np.full((len(rows), length), value, dtype=np.int64)
    for place, row in zip(array, rows, strict=True):
        place[:len(row)] = row
    return torch.from_numpy(array)
