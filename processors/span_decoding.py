"""From scores of tokens to the best spans, in NumPy.

Letters: N windows, W tokens of the longest window, K candidates of a window, D longest answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from processors.span_windows import Windows

WINDOWS_AT_ONCE = 512  # keeps the (windows, K, D) arrays in the megabytes


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
