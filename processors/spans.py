"""Span reading: questions to windows, model outputs to answers, scores and prediction files.

`SpanData` is what the recipe needs to know of one split, as `ClassificationData` is for classes.
`processors/span_windows.py` cuts passages, `processors/span_decoding.py` finds the best spans.

Letters: N windows, Q questions, B batch, T tokens of a batch, W tokens of the longest window of a
split, S starts of the v2 head's beam, E ends for each.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from processors.span_decoding import Found, beam_pairs, best_pairs, merge_windows
from processors.span_windows import make_windows
from processors.squad import SpanSplit

logger = logging.getLogger(__name__)


@dataclass
class NullThreshold:
    """Above which null odds a question counts as unanswerable; all splits of a run share one."""

    value: float = 0.0
    tune: bool = True  # each score of a dev split sets the value to the best one


@dataclass
class SpanOptions:
    """How passages are cut and answers are chosen."""

    doc_stride: int = 128  # tokens from the beginning of a window to that of the next
    max_query_length: int = 64
    n_best_size: int = 20
    max_answer_length: int = 30
    version_2: bool = False  # the v2 head, and questions without an answer
    start_n_top: int = 5  # beam of the v2 head, as in its config
    end_n_top: int = 5
    threshold: NullThreshold = field(default_factory=NullThreshold)


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
            for row in rows:
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
        """What evaluation remembers of a forward pass; `columns` says how it is read."""
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
        width = int(self.lengths.max())
        starts, ends = self.windows.allowed(width)  # (N, W) bool twice
        longest = self.options.max_answer_length
        if self.options.version_2:
            parts = columns(outputs, self.options)
            pairs = beam_pairs(parts.start_log_probs, parts.start_index, parts.end_log_probs,
                               parts.end_index, starts, ends, longest)
        else:
            # Texts may repeat at several places, so twice as many spans are looked at.
            pairs = best_pairs(outputs[:, 0], outputs[:, 1], starts, ends, longest,
                               n_best if n_best == 1 else 2 * n_best)
        return merge_windows(pairs, self.windows, self.split.passages, n_best)

    def null_odds(self, outputs: np.ndarray) -> np.ndarray:
        """(N, …) of `keep` -> (Q,) log odds that there is no answer, of the surest window."""
        odds = np.full(len(self.split), np.inf)
        np.minimum.at(odds, self.windows.question, columns(outputs, self.options).null_odds)
        return odds

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


@dataclass
class Columns:
    """What `pack` keeps of the v2 head, each (N, …)."""

    null_odds: np.ndarray  # (N,)
    start_log_probs: np.ndarray  # (N, S)
    start_index: np.ndarray  # (N, S) int
    end_log_probs: np.ndarray  # (N, S, E)
    end_index: np.ndarray  # (N, S, E) int
    start_logits: np.ndarray  # (N, W)


def pack(output: Any, width: int, options: SpanOptions) -> np.ndarray:
    """A model output -> float32 (B, 2, W) of v1, or (B, 1 + 2 S + 2 S E + W) of v2.

    Where a batch has fewer tokens than W, or than the beam is wide, the rest is -inf.
    """
    if not options.version_2:
        return np.stack([_widened(output.start_logits, width), _widened(output.end_logits, width)],
                        axis=1)
    s, e = options.start_n_top, options.end_n_top
    found = output.start_top_index.shape[1]  # of a window with fewer tokens, fewer
    ends = [x.unflatten(1, (found, -1)) for x in (output.end_top_log_probs, output.end_top_index)]
    ends = [_widened(x.flatten(0, 1), e).reshape(len(x), found, e) for x in ends]  # (B, found, E)
    missing = ((0, 0), (0, s - found), (0, 0))
    end_log_probs, end_index = (np.pad(x, missing, constant_values=-np.inf) for x in ends)
    size = len(end_index)
    return np.concatenate([
        output.cls_logits.float().cpu().numpy()[:, None],
        _widened(output.start_top_log_probs, s), _widened(output.start_top_index, s),
        end_log_probs.reshape(size, -1), end_index.reshape(size, -1),
        _widened(output.start_logits, width)], axis=1)


def columns(outputs: np.ndarray, options: SpanOptions) -> Columns:
    """(N, 1 + 2 S + 2 S E + W) of `pack` -> its parts; places that are filled up have index 0."""
    s, e = options.start_n_top, options.end_n_top
    edges = np.cumsum([1, s, s, s * e, s * e])
    odds, start, start_at, end, end_at, logits = np.split(outputs, edges, axis=1)
    index = [np.where(np.isfinite(at), at, 0).astype(np.int64) for at in (start_at, end_at)]
    return Columns(odds[:, 0], start, index[0], end.reshape(-1, s, e),
                   index[1].reshape(-1, s, e), logits)


def _widened(values: Tensor, width: int) -> np.ndarray:
    """(B, T) -> (B, width), -inf beyond T."""
    array = np.full((len(values), width), -np.inf, dtype=np.float32)
    array[:, :values.shape[1]] = values.float().cpu().numpy()
    return array
