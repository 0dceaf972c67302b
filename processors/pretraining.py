"""Pretraining instances: sentence pairs and masked words, made as they are read.

`PretrainingDataset[(epoch, index)]` is a pure function of (seed, epoch, index): no mask is stored,
every epoch has new ones, and the number of loader workers changes nothing.
Source: google-research/albert create_pretraining_data.py and the paper (arXiv 1909.11942, 3.1).

Letters: T tokens of an instance, P masked positions, B batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.tokenization_albert import AlbertTokenizer
from processors.shards import Corpus

Features = dict[str, Any]
NOT_SCORED = -100  # sentence-order label of an instance that is no pair


def generator(*key: int) -> np.random.Generator:
    """The one source of randomness of whatever the key names."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))


# ---- masked words ------------------------------------------------------------------------------


class WordMasking:
    """Which words are hidden, and what stands in their place.

    Whole words, in n-grams of 1 to `ngram` words with p(n) proportional to 1/n, until
    `masked_lm_prob` of the tokens (at most `max_predictions`) are chosen: never more, never a
    special token, never across the two segments. (A text whose only words are longer than that has
    none hidden.) Of the chosen tokens 80% become [MASK], 10% an
    ordinary token at random, 10% stay.
    """

    def __init__(self, tokenizer: AlbertTokenizer, masked_lm_prob: float = 0.15,
                 max_predictions: int = 20, ngram: int = 3) -> None:
        self.probability, self.max_predictions = masked_lm_prob, max_predictions
        self.mask_id = tokenizer.mask_token_id
        self.ordinary_ids = tokenizer.ordinary_ids
        weights = 1.0 / np.arange(1, ngram + 1)
        # cumulative p(n) where 1, 2, … words are left to choose from
        self.cumulative = [(np.cumsum(weights[:k]) / weights[:k].sum()).tolist()
                           for k in range(1, ngram + 1)]

    def budget(self, length: int) -> int:
        """How many of `length` tokens, special ones included, are to be predicted."""
        return min(self.max_predictions, max(1, round(length * self.probability)))

    def choose(self, segments: Sequence[np.ndarray], budget: int,
               rng: np.random.Generator) -> list[int]:
        """Positions to predict, sorted.

        segments: for each, the positions at which its words begin, and the position of its end.
        """
        starts: list[int] = []
        ends: list[int] = []
        left: list[int] = []  # words from here to the end of the segment
        for bounds in segments:
            bounds = bounds.tolist()
            starts += bounds[:-1]
            ends += bounds[1:]
            left += range(len(bounds) - 1, 0, -1)
        draws = rng.random(len(starts)).tolist()
        longest = len(self.cumulative)
        taken = bytearray(len(starts))
        chosen: list[int] = []
        for word in rng.permutation(len(starts)).tolist():
            room = budget - len(chosen)
            if room <= 0:
                break
            cumulative = self.cumulative[min(longest, left[word]) - 1]
            n = 1
            while draws[word] >= cumulative[n - 1] and n < len(cumulative):
                n += 1
            start = starts[word]
            while n and ends[word + n - 1] - start > room:  # shorter, if the budget asks for it
                n -= 1
            if n == 0 or any(taken[word:word + n]):
                continue
            taken[word:word + n] = b"\1" * n
            chosen += range(start, ends[word + n - 1])
        return sorted(chosen)

    def corrupt(self, ids: np.ndarray, positions: list[int], rng: np.random.Generator) -> None:
        """Replace the chosen tokens in place."""
        fate = rng.random(len(positions))
        where = np.asarray(positions, np.int64)  # none, where no word is as short as the budget
        ids[where[fate < 0.8]] = self.mask_id
        random = where[fate >= 0.9]
        ids[random] = self.ordinary_ids[rng.integers(len(self.ordinary_ids), size=len(random))]


# ---- sentence pairs ----------------------------------------------------------------------------


class PretrainingDataset:
    """Instances of at most `max_seq_length` tokens, packed from the sentences of each document.

    Sentences are added up to a target, the full length or, with short_seq_prob, a random one; the
    chunk is cut into two segments at a random sentence, and with `sop` they are swapped half the
    time (label 1). A chunk of one sentence is cut at a random word, so both segments are text of
    one document and no sentence is paired with itself; one that cannot be cut is no pair and its
    order is not scored. (The official code pairs it with another document and calls that swapped;
    it also draws one target a document, where here each chunk draws its own.)

    static_epochs: after so many epochs the same instances come again, masks included; 1 is the
    static masking of the paper's code with dupe_factor 1. 0: always new.
    """

    def __init__(self, corpus: Corpus, tokenizer: AlbertTokenizer, max_seq_length: int = 128,
                 seed: int = 42, short_seq_prob: float = 0.1, sop: bool = True,
                 masking: WordMasking | None = None, static_epochs: int = 0) -> None:
        if max_seq_length < 8:
            raise ValueError(f"max_seq_length is {max_seq_length}, expected at least 8")
        self.corpus, self.seed = corpus, seed
        self.max_tokens = max_seq_length - 3  # beside [CLS] and two [SEP]
        self.short_seq_prob, self.sop, self.static_epochs = short_seq_prob, sop, static_epochs
        self.masking = masking or WordMasking(tokenizer)
        self.starts_word = tokenizer.starts_word
        self.cls_id, self.sep_id = tokenizer.cls_token_id, tokenizer.sep_token_id
        self.chunks = lru_cache(maxsize=2)(self._chunks)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "chunks"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self.chunks = lru_cache(maxsize=2)(self._chunks)

    def epoch_size(self, epoch: int) -> int:
        """Number of instances in an epoch."""
        return len(self.chunks(self._source(epoch))[0])

    def __len__(self) -> int:
        return self.epoch_size(0)

    def _source(self, epoch: int) -> int:
        return epoch % self.static_epochs if self.static_epochs else epoch

    def _chunks(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """First sentence, and the one after the last, of every chunk of an epoch."""
        firsts, lasts = [], []
        for number, shard in enumerate(self.corpus.shards):
            rng = generator(self.seed, epoch, number)
            offsets = np.asarray(shard.sentences)
            here, end = np.asarray(shard.documents[:-1]), np.asarray(shard.documents[1:])
            base = self.corpus.first_sentence[number]
            while len(here):  # one chunk of every document that has sentences left
                short = rng.random(len(here)) < self.short_seq_prob
                target = np.where(short, rng.integers(2, self.max_tokens + 1, len(here)),
                                  self.max_tokens)
                after = np.minimum(np.searchsorted(offsets, offsets[here] + target), end)
                firsts.append(here + base)
                lasts.append(after + base)
                going = after < end
                here, end = after[going], end[going]
        first = np.concatenate(firsts)
        order = np.argsort(first)
        return first[order], np.concatenate(lasts)[order]

    def __getitem__(self, key: tuple[int, int]) -> Features:
        """(epoch, index) -> input_ids, token_type_ids (T,); masked_lm_positions, masked_lm_ids
        (P,); sentence_order_labels."""
        epoch, index = self._source(key[0]), key[1]
        rng = generator(self.seed, epoch, index, 1)
        first, last = (int(bound[index]) for bound in self.chunks(epoch))
        tokens, begins, cuts = self._text(first, last)
        label = NOT_SCORED
        cut = int(cuts[rng.integers(len(cuts))]) if len(cuts) else len(tokens)
        segments = [slice(0, cut), slice(cut, len(tokens))] if len(cuts) else [slice(0, cut)]
        if self.sop and len(segments) == 2:
            label = int(rng.random() < 0.5)
            if label:
                segments.reverse()
        segments = self._truncate(segments, rng)
        length = sum(s.stop - s.start for s in segments) + 1 + len(segments)
        ids = np.empty(length, np.int64)
        types = np.zeros(length, np.int64)
        ids[0] = self.cls_id
        at, bounds = 1, []
        for kind, segment in enumerate(segments):
            end = at + segment.stop - segment.start
            ids[at:end] = tokens[segment]
            words = np.flatnonzero(begins[segment])
            if len(words) == 0 or words[0] != 0:  # what is left of a word counts as one
                words = np.concatenate([[0], words])
            bounds.append(np.append(words + at, end))
            ids[end] = self.sep_id
            types[at:end + 1] = kind
            at = end + 1
        positions = self.masking.choose(bounds, self.masking.budget(length), rng)
        labels = ids[positions]  # before the tokens are replaced
        self.masking.corrupt(ids, positions, rng)
        return {"input_ids": ids, "token_type_ids": types, "masked_lm_positions": positions,
                "masked_lm_ids": labels, "sentence_order_labels": label}

    def _text(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens of a chunk, which of them begin a word, and where it may be cut in two."""
        corpus = self.corpus
        number = int(np.searchsorted(corpus.first_sentence, first, side="right")) - 1
        shard, base = corpus.shards[number], int(corpus.first_sentence[number])
        offsets = np.asarray(shard.sentences[first - base:last - base + 1])
        tokens = np.asarray(shard.tokens[offsets[0]:offsets[-1]])
        begins = (self.starts_word[tokens] if shard.words is None else
                  np.asarray(shard.words[offsets[0]:offsets[-1]]))
        cuts = offsets[1:-1] - offsets[0]
        if len(cuts) == 0:
            cuts = np.flatnonzero(begins[1:]) + 1
        return tokens, begins, cuts

    def _truncate(self, segments: list[slice], rng: np.random.Generator) -> list[slice]:
        """Take tokens from the longer segment, at its front or back, as often at one as at the
        other, until both fit."""
        sizes = [s.stop - s.start for s in segments]
        if sum(sizes) <= self.max_tokens:
            return segments
        if len(sizes) == 1:
            keep = [self.max_tokens]
        else:
            half = self.max_tokens // 2
            second = (sizes[1] if sizes[1] < half else
                      self.max_tokens - min(sizes[0], self.max_tokens - half))
            keep = [self.max_tokens - second, second]
        result = []
        for segment, size, kept in zip(segments, sizes, keep, strict=True):
            front = int(rng.binomial(size - kept, 0.5))
            result.append(slice(segment.start + front, segment.start + front + kept))
        return result


# ---- batches -----------------------------------------------------------------------------------


def collate_pretraining(features: Sequence[Features], pad_token_id: int = 0, sop: bool = True,
                        length: int | None = None) -> dict[str, Tensor]:
    """B instances -> a batch, padded to its longest (or to `length`).

    input_ids, attention_mask, token_type_ids (B, T); masked_lm_positions, masked_lm_ids (B, P)
    with masked_lm_weights 0 where there is none; sentence_order_labels (B,) if `sop`.
    """
    rows = len(features)
    width = length or max(len(f["input_ids"]) for f in features)
    masked = max(1, *(len(f["masked_lm_positions"]) for f in features))
    batch = {
        "input_ids": np.full((rows, width), pad_token_id, np.int64),
        "attention_mask": np.zeros((rows, width), np.int64),
        "token_type_ids": np.zeros((rows, width), np.int64),
        "masked_lm_positions": np.zeros((rows, masked), np.int64),
        "masked_lm_ids": np.zeros((rows, masked), np.int64),
        "masked_lm_weights": np.zeros((rows, masked), np.float32),
    }
    for row, f in enumerate(features):
        size, count = len(f["input_ids"]), len(f["masked_lm_positions"])
        batch["input_ids"][row, :size] = f["input_ids"]
        batch["attention_mask"][row, :size] = 1
        batch["token_type_ids"][row, :size] = f["token_type_ids"]
        batch["masked_lm_positions"][row, :count] = f["masked_lm_positions"]
        batch["masked_lm_ids"][row, :count] = f["masked_lm_ids"]
        batch["masked_lm_weights"][row, :count] = 1
    if sop:
        batch["sentence_order_labels"] = np.array([f["sentence_order_labels"] for f in features])
    return {name: torch.from_numpy(array) for name, array in batch.items()}
