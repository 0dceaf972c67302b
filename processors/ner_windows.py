"""Sentences as pieces: the first piece of a word carries its tag, long sentences are windowed.

A word is tokenised by itself, as the published code for BERT does. A word of which nothing is left
(a control character, white space among Chinese characters) has no place in the input; it takes
part in an entity where the words around it belong to the same one.

A sentence that is too long is read in windows that overlap by half. Each of its words is trained
on and predicted in one of them: where the shorter of its two contexts is longest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from metrics.ner import OUTSIDE, Span, continues, split_tag
from model.tokenization_albert import AlbertTokenizer


@dataclass(slots=True)
class Window:
    """A run of words of one sentence as [CLS] pieces [SEP]."""

    sentence: int
    input_ids: list[int]
    words: list[int]  # the words that are predicted here, positions in the sentence
    places: list[int]  # the first piece of each of them, positions in input_ids


@dataclass
class Windows:
    """The sentences of one split. Letters: N windows."""

    windows: list[Window] = field(default_factory=list)
    seen: list[list[int]] = field(default_factory=list)  # by sentence: words that have a piece
    windowed: int = 0  # sentences in several windows
    unseen: int = 0  # words without a piece
    cut: int = 0  # words that are longer than a window by themselves, of which the end is cut off


def make_windows(sentences: Sequence[Sequence[str]], tokenizer: AlbertTokenizer,
                 max_length: int) -> Windows:
    """Words of each sentence -> windows of at most max_length pieces with [CLS] and [SEP]."""
    vocabulary = sorted({word for words in sentences for word in words})
    pieces_of = dict(zip(vocabulary, tokenizer.encode_batch(vocabulary), strict=True))
    budget = max_length - 2
    result = Windows()
    for number, words in enumerate(sentences):
        pieces = [pieces_of[word] for word in words]
        seen = [place for place, ids in enumerate(pieces) if ids]
        result.seen.append(seen)
        result.unseen += len(words) - len(seen)
        result.cut += sum(len(pieces[place]) > budget for place in seen)
        counts = [min(len(pieces[place]), budget) for place in seen]
        runs = plan(counts, budget)
        result.windowed += len(runs) > 1
        for (first, stop), (own, own_stop) in zip(runs, shares(counts, runs), strict=True):
            ids, places = [tokenizer.cls_token_id], []
            for word in range(first, stop):
                places.append(len(ids))
                ids += pieces[seen[word]][:budget]
            if own < own_stop:
                result.windows.append(Window(
                    number, [*ids, tokenizer.sep_token_id], seen[own:own_stop],
                    places[own - first:own_stop - first]))
    return result


def plan(counts: Sequence[int], budget: int) -> list[tuple[int, int]]:
    """Pieces of each word -> runs [first, stop) of words with at most `budget` pieces.

    Neighbours overlap by half of the budget, as far as whole words go; the last is filled up.
    """
    if not counts:
        return []
    before = [0, *accumulate(counts)]  # pieces before each word
    runs: list[tuple[int, int]] = []
    first = 0
    while True:
        stop = bisect_left(before, before[first] + budget + 1) - 1
        if stop == len(counts):
            # From the end backwards, so that the last window has all the context that fits.
            filled = bisect_left(before, before[-1] - budget)
            runs.append((min(first, filled), stop))
            return runs
        runs.append((first, stop))
        # As far back as the overlap says, yet far enough on to have at least one word more.
        first = max(bisect_left(before, before[stop] - budget // 2),
                    bisect_left(before, before[stop + 1] - budget))


def shares(counts: Sequence[int], runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Which words of each run are its own: [first, stop), together every word once.

    A word belongs to the run in which the smaller number of pieces to its left or right is
    largest; of equals to the earlier.
    """
    before = [0, *accumulate(counts)]
    own: list[tuple[int, int]] = []
    begin = 0
    for (first, stop), (after, after_stop) in pairwise(runs):
        end = max(begin, after)  # what stands before the next run is this one's in any case
        while end < stop:
            here = min(before[end] - before[first], before[stop] - before[end + 1])
            there = min(before[end] - before[after], before[after_stop] - before[end + 1])
            if here < there:
                break
            end += 1
        own.append((begin, end))
        begin = end
    return [*own, (begin, len(counts))] if runs else []


def seen_spans(spans: Sequence[Span], seen: Sequence[int]) -> list[Span]:
    """Entities in positions among the words that have a piece; one without any is left out."""
    result = []
    for kind, start, stop in spans:
        first, last = bisect_left(seen, start), bisect_left(seen, stop)
        if first < last:
            result.append((kind, first, last))
    return result


def spread_tags(tags: Sequence[str], seen: Sequence[int], length: int) -> list[str]:
    """Tags of the words that have a piece -> tags of all `length` words of the sentence."""
    result = [OUTSIDE] * length
    for place, tag in zip(seen, tags, strict=True):
        result[place] = tag
    for before, after in pairwise(seen):
        if after > before + 1 and continues(split_tag(result[before]), split_tag(result[after])):
            inside = "I" + result[before][1:]
            result[before + 1:after] = [inside] * (after - before - 1)
    return result
