"""Passages cut into windows that overlap, and characters to tokens and back.

A window is `[CLS] question [SEP] part of the passage [SEP]`, as in the official code: parts begin
every `doc_stride` tokens and are as long as fits. A token in several windows counts in the one
where it has the most context on its poorer side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from model.tokenization_albert import AlbertTokenizer
from processors.readers import DataError

TEXTS_AT_ONCE = 1000  # to tokenise: offsets are large as Python objects, small as arrays


class Windows:
    """N windows on Q questions; `question` (N,) is sorted. Ids of a window are put together late.

    first, size: (N,) the window's part of the passage's tokens. lengths: (N,) all its tokens.
    """

    def __init__(self, question_ids: list[list[int]], passage_of: Sequence[int],
                 passage_ids: list[list[int]], spans: list[np.ndarray], cls: int, sep: int) -> None:
        self.question_ids, self.passage_ids = question_ids, passage_ids
        self.passage_of, self.spans = passage_of, spans  # (tokens, 2) characters of each passage
        self.cls, self.sep = cls, sep
        self.cut_questions = 0
        self.question = self.first = self.size = np.zeros(0, dtype=np.int64)
        self.prefix = np.array([len(ids) + 2 for ids in question_ids])  # (Q,) position of part

    def cut(self, max_length: int, stride: int) -> None:
        """Make the windows. A passage without tokens has one that is empty."""
        question, first, size = [], [], []
        for number, ids in enumerate(self.question_ids):
            total, room = len(self.passage_ids[self.passage_of[number]]), max_length - len(ids) - 3
            step, at = min(stride, room), 0
            while True:
                question.append(number)
                first.append(at)
                size.append(min(room, total - at))
                if at + room >= total:
                    break
                at += step
        self.question, self.first, self.size = map(np.array, (question, first, size))

    def keep(self, which: np.ndarray) -> None:
        """Leave out windows; which: (N,) bool."""
        self.question, self.first, self.size = (
            x[which] for x in (self.question, self.first, self.size))

    def __len__(self) -> int:
        return len(self.question)

    @property
    def lengths(self) -> np.ndarray:
        return self.prefix[self.question] + self.size + 1

    def rows_of(self, question: int) -> slice:
        """The windows of a question."""
        return slice(*np.searchsorted(self.question, [question, question + 1]).tolist())

    def features(self, row: int) -> dict[str, Any]:
        """input_ids, token_type_ids and p_mask: 1 = may not be an answer.

        [CLS] may: it is where windows without an answer point to.
        """
        question, first, size = self.question[row], int(self.first[row]), int(self.size[row])
        ids = self.question_ids[question]
        part = self.passage_ids[self.passage_of[question]][first:first + size]
        return {"input_ids": [self.cls, *ids, self.sep, *part, self.sep],
                "token_type_ids": [0] * (len(ids) + 2) + [1] * (size + 1),
                "p_mask": [0] + [1] * (len(ids) + 1) + [0] * size + [1]}

    # ---- characters and tokens -----------------------------------------------------------------

    def tokens_of(self, passage: int, start: int, end: int) -> tuple[int, int] | None:
        """The first and last token of a passage that has some of its characters [start, end).

        None where no token does: the tokenizer drops control characters, for instance.
        """
        spans = self.spans[passage]
        first = int(np.searchsorted(spans[:, 1], start, side="right"))
        last = int(np.searchsorted(spans[:, 0], end, side="left")) - 1
        return (first, last) if first <= last else None

    def positions(self, row: int, first: int, last: int) -> tuple[int, int]:
        """Tokens of the passage -> positions in a window, (0, 0) where it does not have both."""
        begin = self.first[row]
        if first < begin or last >= begin + self.size[row]:
            return 0, 0
        shift = self.prefix[self.question[row]] - begin
        return int(first + shift), int(last + shift)

    def characters_of(self, row: int, start: int, end: int, text: str) -> tuple[int, int]:
        """Positions of a window -> characters of the passage `text`, without a space at the end.

        (A SentencePiece "▁" that stands alone ends where the next word begins.)
        """
        shift = self.first[row] - self.prefix[self.question[row]]
        spans = self.spans[self.passage_of[self.question[row]]]
        begin, stop = int(spans[start + shift, 0]), int(spans[end + shift, 1])
        return begin, begin + len(text[begin:stop].rstrip())

    def allowed(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """(N, width) bool twice: where an answer may start, and where it may end.

        On the passage; and it starts where this window is the one that counts for the token.
        """
        place = np.arange(width)
        prefix = self.prefix[self.question][:, None]
        inside = (place >= prefix) & (place < prefix + self.size[:, None])  # (N, W)
        starts = inside.copy()
        edges = np.flatnonzero(np.diff(self.question, prepend=-1, append=-1))
        for begin, stop in zip(edges[:-1], edges[1:], strict=True):
            if stop - begin > 1:
                rows = slice(begin, stop)
                best = richest_window(self.first[rows], self.size[rows])  # (tokens,)
                at = int(prefix[begin, 0])
                for row in range(begin, stop):
                    part = best[self.first[row]:self.first[row] + self.size[row]]
                    starts[row, at:at + len(part)] &= part == row - begin
        return starts, inside


def richest_window(first: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(windows,) twice -> for each token of the passage the window that gives it most context.

    The official score: the smaller of the tokens to its left and right, and 0.01 of the window's
    size; the first of equals.
    """
    token = np.arange(int((first + size).max()))[None]
    left, right = token - first[:, None], (first + size)[:, None] - 1 - token  # (windows, tokens)
    inside = (left >= 0) & (right >= 0)
    score = np.where(inside, np.minimum(left, right) + 0.01 * size[:, None], -np.inf)
    return score.argmax(axis=0)


def make_windows(questions: Sequence[str], passage_of: Sequence[int], passages: Sequence[str],
                 tokenizer: AlbertTokenizer, max_length: int, doc_stride: int,
                 max_query_length: int) -> Windows:
    """Windows of Q questions; passage_of: (Q,) indices of passages.

    Each text is tokenised once. Questions are cut to `max_query_length` tokens and counted.
    Raises `DataError` where a window has no room for a passage beside the longest question.
    """
    question_ids = tokenizer.encode_batch(questions)
    cut = sum(len(ids) > max_query_length for ids in question_ids)
    question_ids = [ids[:max_query_length] for ids in question_ids]
    longest = max(map(len, question_ids), default=0)
    if max_length - longest - 3 < 1:
        raise DataError(f"--max_seq_length {max_length}: no room for a passage beside a question "
                        f"of {longest} tokens and 3 special ones; raise it, or lower "
                        f"--max_query_length {max_query_length}")
    ids: list[list[int]] = []
    spans: list[np.ndarray] = []
    for at in range(0, len(passages), TEXTS_AT_ONCE):
        encoding = tokenizer(passages[at:at + TEXTS_AT_ONCE], return_offsets=True)
        ids += [row[1:-1] for row in encoding.input_ids]  # without [CLS] and [SEP]
        spans += [np.array(row[1:-1], dtype=np.int32).reshape(-1, 2) for row in encoding.offsets]
    windows = Windows(question_ids, passage_of, ids, spans, tokenizer.cls_token_id,
                      tokenizer.sep_token_id)
    windows.cut_questions = cut
    windows.cut(max_length, doc_stride)
    return windows
