"""Span reading: questions to windows, model outputs to answers, scores and prediction files.

`SpanData` is what the recipe needs to know of one split, as `ClassificationData` is for classes.
`processors/span_windows.py` cuts passages, `processors/span_decoding.py` finds the best spans.

Letters: N windows, Q questions, B batch, T tokens of a batch, W tokens of the longest window of a
split.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metrics.classification import MetricError, Scores
from metrics.squad import score_answers
from model.tokenization_albert import AlbertTokenizer
from processors.base import Task
from processors.classification import padded
from processors.readers import DataError
from processors.span_decoding import Found, SpanOptions, columns, decode, null_odds, pack
from processors.span_windows import make_windows
from processors.squad import SpanSplit

logger = logging.getLogger(__name__)


class SpanData:
    """One split as a map-style data set of windows: `data[(epoch, index)]` or `data[index]`.

    `lengths` (N,) counts the tokens of each window. A training split gives labels with its
    features; other splits give none, since the v2 head searches only where it is told no start.
    Raises `DataError` where a window has no room for a passage.
    """

    main, higher_is_better = "f1", True

    def __init__(self, task: Task, split: SpanSplit, tokenizer: AlbertTokenizer, max_length: int,
                 options: SpanOptions) -> None:
        self.task, self.split, self.options = task, split, options
        self.pad_token_id = tokenizer.pad_token_id
        self.windows = make_windows(
            [q.text for q in split.questions], [q.passage for q in split.questions],
            split.passages, tokenizer, max_length, options.doc_stride, options.max_query_length)
        self.truncated = self.windows.cut_questions
        self.starts, self.ends = self._label() if split.labelled else (None, None)  # (N,) tokens
        self.lengths = self.windows.lengths
        self._tell(max_length)

    def _label(self) -> tuple[np.ndarray, np.ndarray]:
        """The answer's first and last token in each window, 0 ([CLS]) where it is not whole.

        Of several answers the first that stands in the passage counts. Where none does, windows
        are labelled -1, which is not scored, and left out of a training split.
        """
        starts, ends = np.zeros((2, len(self.windows)), dtype=np.int64)
        windowless = 0
        for number, question in enumerate(self.split.questions):
            rows = self.windows.rows_of(number)
            if question.is_impossible:
                continue
            passage = self.split.passages[question.passage]
            spans = [self.windows.tokens_of(question.passage, answer.start,
                                            answer.start + len(answer.text))
                     for answer in question.answers if answer.stands_in(passage)]
            span = next((span for span in spans if span is not None), None)
            for row in range(rows.start, rows.stop):
                starts[row], ends[row] = (-1, -1) if span is None else (
                    self.windows.positions(row, *span))
            windowless += span is not None and not starts[rows].any()
        if windowless:
            logger.warning("%s: %d answers fit whole into no window; raise --max_seq_length or "
                           "lower --doc_stride", self.split.path, windowless)
        if self.split.part == "train":
            known = starts >= 0
            lost = len(set(self.windows.question[~known]))
            if lost:
                logger.warning("%s: %d questions are left out: the tokenizer sees nothing of "
                               "their answer", self.split.path, lost)
                self.windows.keep(known)
                starts, ends = starts[known], ends[known]
                if not len(starts):
                    raise DataError(f"{self.split.path}: the tokenizer sees nothing of any answer; "
                                    "is it that of the language?")
        return starts, ends

    def _tell(self, max_length: int) -> None:
        windows, split = self.windows, self.split
        logger.info("%s: %d questions on %d passages in %d windows of at most %d tokens",
                    split.path, len(split), len(split.passages), len(windows), max_length)
        if windows.cut_questions:
            logger.warning("%s: %d of %d questions are longer than %d tokens and were cut",
                           split.path, windows.cut_questions, len(split),
                           self.options.max_query_length)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, Any]:
        index = key[1] if isinstance(key, tuple) else key
        features = self.windows.features(index)
        if self.split.part == "train":
            features["start_positions"] = int(self.starts[index])
            features["end_positions"] = int(self.ends[index])
            if self.options.version_2:
                features["is_impossible"] = int(self.starts[index] == 0)
        return features

    def collate(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """B features -> input_ids, attention_mask, token_type_ids, p_mask (B, T); labels (B,)."""
        return collate(features, self.pad_token_id)

    def keep(self, output: Any) -> np.ndarray:
        """What evaluation remembers of a forward pass; `pack` says which."""
        return pack(output, int(self.lengths.max()), self.options)

    # ---- scores and predictions ----------------------------------------------------------------

    def score(self, outputs: np.ndarray) -> Scores:
        """(N, …) of `keep` -> scores. Raises `MetricError` where the split has no answers.

        With the v2 head a dev split sets the threshold that test splits go by, where it is tuned.
        """
        if not self.split.labelled:
            raise MetricError(f"{self.split.path} has no answers: a score needs them")
        found = self.decode(outputs, n_best=1)
        texts = [best[0].text if best else "" for best in found]
        golds = [[answer.text for answer in q.answers] for q in self.split.questions]
        if not self.options.version_2:
            return score_answers(self.task.metric, texts, golds)
        threshold = self.options.threshold
        tunes = threshold.tune and self.split.part == "dev"
        scores = score_answers(self.task.metric, texts, golds, self.null_odds(outputs),
                               None if tunes else threshold.value)
        if tunes:
            threshold.value = scores.values["threshold"]
        return scores

    def loss(self, outputs: np.ndarray) -> float:
        """(N, …) of `keep` -> mean cross entropy of the windows.

        v1: mean of start and end. v2: of the start, and half of that of being answerable, as the
        end is only known for the starts of the beam.
        """
        known = np.flatnonzero(self.starts >= 0)
        if not len(known):
            return 0.0
        if not self.options.version_2:
            return float(_cross_entropy(outputs[known, 0], self.starts[known]).mean()
                         + _cross_entropy(outputs[known, 1], self.ends[known]).mean()) / 2
        parts = columns(outputs, self.options)
        spans = _cross_entropy(parts.start_logits[known], self.starts[known])  # (known,)
        sign = np.where(self.starts[known] == 0, -1.0, 1.0)  # the logit is that of no answer
        answerable = np.logaddexp(0.0, sign * parts.null_odds[known])
        return float(spans.mean() + 0.5 * answerable.mean())

    def decode(self, outputs: np.ndarray, n_best: int) -> list[list[Found]]:
        """(N, …) of `keep` -> for each question its best spans, best first, of different text."""
        return decode(outputs, self.windows, self.split.passages, self.options, n_best)

    def null_odds(self, outputs: np.ndarray) -> np.ndarray:
        """(N, …) of `keep` of the v2 head -> (Q,) log odds that there is no answer."""
        return null_odds(outputs, self.windows, self.options)

    def write(self, outputs: np.ndarray, path: Path) -> None:
        """Write `path` (id -> text) and beside it nbest_predictions.json and null_odds.json."""
        found = self.decode(outputs, self.options.n_best_size)
        guids = [question.guid for question in self.split.questions]
        texts = [best[0].text if best else "" for best in found]
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.options.version_2:
            odds = self.null_odds(outputs)
            texts = ["" if value > self.options.threshold.value else text
                     for text, value in zip(texts, odds.tolist(), strict=True)]
            _write_json(path.with_name("null_odds.json"),
                        dict(zip(guids, odds.tolist(), strict=True)))
        _write_json(path, dict(zip(guids, texts, strict=True)))
        _write_json(path.with_name("nbest_predictions.json"), {
            guid: [{"text": f.text, "probability": f.probability, "score": f.score,
                    "start": f.start, "end": f.end} for f in best]
            for guid, best in zip(guids, found, strict=True)})


def _cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(N, W), (N,) -> (N,)."""
    logits = logits.astype(np.float64)
    top = logits.max(axis=1, keepdims=True)
    chosen = logits[np.arange(len(labels)), labels]  # (N,)
    return np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0] - chosen


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


# ---- batches -----------------------------------------------------------------------------------


def collate(features: Sequence[Mapping[str, Any]], pad_token_id: int) -> dict[str, Tensor]:
    """B features -> input_ids, attention_mask, token_type_ids, p_mask (B, T); labels (B,)."""
    rows = [f["input_ids"] for f in features]
    length = max(map(len, rows))
    batch = {"input_ids": padded(rows, length, pad_token_id),
             "attention_mask": padded([[1] * len(row) for row in rows], length, 0),
             "token_type_ids": padded([f["token_type_ids"] for f in features], length, 0),
             "p_mask": padded([f["p_mask"] for f in features], length, 1)}
    for name in ("start_positions", "end_positions", "is_impossible"):
        if name in features[0]:
            batch[name] = torch.tensor([f[name] for f in features], dtype=torch.int64)
    return batch
