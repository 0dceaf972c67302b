"""From outputs of the model to the best spans, in NumPy.

Letters: N windows, Q questions, B batch, T tokens of a batch, W tokens of the longest window, K
candidates of a window, D longest answer, S starts of the v2 head's beam, E ends for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from processors.span_windows import Windows

WINDOWS_AT_ONCE = 512  # keeps the (windows, K, D) arrays in the megabytes


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


@dataclass
class Found:
    """An answer: characters [start, end) of the passage, which spell `text`."""

    text: str
    start: int
    end: int
    score: float  # start plus end: of logits (v1) or log-probabilities (v2)
    probability: float = 0.0  # among the answers found for this question


@dataclass
class Pairs:
    """K candidates of each of N windows, (N, K) each; a score of -inf is none."""

    score: np.ndarray
    start: np.ndarray  # positions in the window
    end: np.ndarray


def best_pairs(start_logits: np.ndarray, end_logits: np.ndarray, starts: np.ndarray,
               ends: np.ndarray, max_answer_length: int, count: int) -> Pairs:
    """The `count` spans of each window with the highest start + end logits.

    start_logits, end_logits: (N, W). starts, ends: (N, W) bool, where a span may start and end.
    All spans of up to `max_answer_length` tokens compete. (The official code pairs the best
    starts with the best ends alone, which may miss the best span, or find none.)
    """
    parts = [_best_pairs(*(x[at:at + WINDOWS_AT_ONCE] for x in (start_logits, end_logits, starts,
                                                                ends)), max_answer_length, count)
             for at in range(0, len(start_logits), WINDOWS_AT_ONCE)]
    return Pairs(*(np.concatenate([getattr(part, name) for part in parts])
                   for name in ("score", "start", "end")))


def _best_pairs(start_logits: np.ndarray, end_logits: np.ndarray, starts: np.ndarray,
                ends: np.ndarray, max_answer_length: int, count: int) -> Pairs:
    number, width = start_logits.shape
    start_scores = np.where(starts, start_logits, -np.inf)  # (N, W)
    end_scores = np.where(ends, end_logits, -np.inf)
    longest = min(max_answer_length, width)
    beyond = np.full((number, longest - 1), -np.inf, dtype=end_scores.dtype)
    # [n, w, d] is the score of the end w + d.
    reach = sliding_window_view(np.concatenate([end_scores, beyond], axis=1), longest, axis=1)
    # The best `count` spans begin at the starts whose own best spans are the best `count`.
    best_of_start = start_scores + reach.max(axis=2)  # (N, W, D) -> (N, W)
    start = top(best_of_start, count)  # (N, S)
    rows = np.arange(number)[:, None]
    score = start_scores[rows, start][:, :, None] + reach[rows, start]  # (N, S, D)
    flat = score.reshape(number, -1)
    chosen = top(flat, count)  # (N, K)
    chosen_start = start[rows, chosen // longest]
    return Pairs(flat[rows, chosen], chosen_start, chosen_start + chosen % longest)


def beam_pairs(start_log_probs: np.ndarray, start_index: np.ndarray, end_log_probs: np.ndarray,
               end_index: np.ndarray, starts: np.ndarray, ends: np.ndarray,
               max_answer_length: int) -> Pairs:
    """All spans of the v2 head's beam that may be answers.

    start_log_probs, start_index: (N, S). end_log_probs, end_index: (N, S, E), given the start.
    """
    number = len(start_index)
    rows = np.arange(number)[:, None]
    start = np.repeat(start_index, end_index.shape[2], axis=1)  # (N, S) -> (N, S E)
    end = end_index.reshape(number, -1)
    with np.errstate(over="ignore"):  # hidden positions have about the lowest float32
        score = (start_log_probs[:, :, None] + end_log_probs).reshape(number, -1)
    valid = starts[rows, start] & ends[rows, end] & (start <= end) & (
        end - start < max_answer_length)
    return Pairs(np.where(valid, score, -np.inf), start, end)


def top(values: np.ndarray, count: int) -> np.ndarray:
    """(N, M) -> indices (N, min(count, M)) of the highest values, highest first."""
    count = min(count, values.shape[1])
    if count < values.shape[1]:
        found = np.argpartition(values, -count, axis=1)[:, -count:]
    else:
        found = np.broadcast_to(np.arange(count), values.shape)
    order = np.argsort(-np.take_along_axis(values, found, axis=1), axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1)


def merge_windows(pairs: Pairs, windows: Windows, passages: Sequence[str], n_best: int,
                  ) -> list[list[Found]]:
    """Candidates of windows -> for each question its `n_best` of different text, best first.

    A question of which no window has a candidate has none. `probability` is the softmax over
    those of a question, as in the official n-best file.
    """
    result: list[list[Found]] = []
    for question, passage_index in enumerate(windows.passage_of):
        passage = passages[passage_index]
        rows = windows.rows_of(question)
        flat = pairs.score[rows].reshape(-1)
        order = np.argsort(-flat, kind="stable")
        order = order[np.isfinite(flat[order])]
        found: dict[str, Found] = {}
        width = pairs.score.shape[1]
        for place in order.tolist():
            row, column = rows.start + place // width, place % width
            begin, stop = windows.characters_of(row, int(pairs.start[row, column]),
                                                int(pairs.end[row, column]), passage)
            text = passage[begin:stop]
            if text and text not in found:
                found[text] = Found(text, begin, stop, float(flat[place]))
                if len(found) == n_best:
                    break
        best = list(found.values())
        if best:
            weights = np.exp(np.array([f.score for f in best]) - best[0].score)
            for answer, weight in zip(best, (weights / weights.sum()).tolist(), strict=True):
                answer.probability = weight
        result.append(best)
    return result


# ---- outputs of the model ------------------------------------------------------------------------


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
    batch, found = output.start_top_index.shape  # S, or as many as the batch has tokens
    ends = []
    for values in (output.end_top_log_probs, output.end_top_index):
        values = _widened(values.reshape(batch * found, -1), e).reshape(batch, found, e)
        values = np.pad(values, ((0, 0), (0, s - found), (0, 0)), constant_values=-np.inf)
        ends.append(values.reshape(batch, s * e))
    return np.concatenate([
        _widened(output.cls_logits[:, None], 1), _widened(output.start_top_log_probs, s),
        _widened(output.start_top_index, s), *ends, _widened(output.start_logits, width)], axis=1)


def columns(outputs: np.ndarray, options: SpanOptions) -> Columns:
    """(N, 1 + 2 S + 2 S E + W) of `pack` -> its parts; places that were filled up have index 0."""
    s, e = options.start_n_top, options.end_n_top
    edges = np.cumsum([1, s, s, s * e, s * e])
    odds, start, start_at, end, end_at, logits = np.split(outputs, edges, axis=1)
    start_index, end_index = (np.where(np.isfinite(at), at, 0).astype(np.int64)
                              for at in (start_at, end_at))
    return Columns(odds[:, 0], start, start_index, end.reshape(-1, s, e),
                   end_index.reshape(-1, s, e), logits)


def _widened(values: Tensor, width: int) -> np.ndarray:
    """(B, T) -> float32 (B, width), -inf beyond T. (Positions are exact in float32.)"""
    array = np.full((len(values), width), -np.inf, dtype=np.float32)
    array[:, :values.shape[1]] = values.to(torch.float32).cpu().numpy()
    return array


def decode(outputs: np.ndarray, windows: Windows, passages: Sequence[str], options: SpanOptions,
           n_best: int) -> list[list[Found]]:
    """(N, …) of `pack` -> for each of Q questions its best spans, best first, of different text."""
    starts, ends = windows.allowed(int(windows.lengths.max()))  # (N, W) bool twice
    longest = options.max_answer_length
    if options.version_2:
        parts = columns(outputs, options)
        pairs = beam_pairs(parts.start_log_probs, parts.start_index, parts.end_log_probs,
                           parts.end_index, starts, ends, longest)
    else:  # a text may stand at several places, so more spans are looked at than are wanted
        pairs = best_pairs(outputs[:, 0], outputs[:, 1], starts, ends, longest,
                           n_best if n_best == 1 else 2 * n_best)
    return merge_windows(pairs, windows, passages, n_best)


def null_odds(outputs: np.ndarray, windows: Windows, options: SpanOptions) -> np.ndarray:
    """(N, …) of `pack` of the v2 head -> (Q,) log odds that there is no answer.

    The lowest of a question's windows: it is answerable if one of them answers it.
    """
    odds = np.full(len(windows.passage_of), np.inf)
    np.minimum.at(odds, windows.question, columns(outputs, options).null_odds)
    return odds
