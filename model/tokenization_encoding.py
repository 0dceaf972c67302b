"""The pieces of one or two texts, cut to length and put between [CLS] and [SEP]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Offsets = list[tuple[int, int]]


@dataclass
class Encoding:
    """A batch of B sequences `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, not padded."""

    input_ids: list[list[int]]
    token_type_ids: list[list[int]]  # 0 up to the first [SEP], 1 after it
    lengths: list[tuple[int, int]]  # tokens of a and of b; b begins at lengths[i][0] + 2
    offsets: list[Offsets] | None  # characters [start, end) of the caller's a or b; (0, 0) special
    truncated: int  # how many of the B sequences were cut

    def __len__(self) -> int:
        return len(self.input_ids)


def kept_lengths(
    rows: Sequence[tuple[int, int]], budget: int | None, truncation: str | bool
) -> list[tuple[int, int]]:
    """How many tokens of a and of b stay; `budget` fit. Raises `ValueError` if none may go."""
    kept = []
    for row, (first, second) in enumerate(rows):
        keep = (first, second)
        if budget is not None and first + second > budget:
            keep = TRUNCATIONS[truncation](first, second, budget)
            if min(keep) < 0:
                raise ValueError(
                    f"text {row} has {first} + {second} tokens, {budget} fit into max_length "
                    f"beside the special ones, and truncation is {truncation!r}; shorten the "
                    "text, raise max_length or choose another truncation"
                )
        kept.append(keep)
    return kept


def join(firsts: list, seconds: list | None, kept: list[tuple[int, int]], cls, sep) -> list[list]:
    """`cls a sep (b sep)` for each row; of ids or, in the same places, of offsets."""
    if seconds is None:
        return [[cls, *a[:keep], sep] for a, (keep, _) in zip(firsts, kept, strict=True)]
    return [
        [cls, *a[:keep_a], sep, *b[:keep_b], sep]
        for a, b, (keep_a, keep_b) in zip(firsts, seconds, kept, strict=True)
    ]


def _cut_longest(first: int, second: int, budget: int) -> tuple[int, int]:
    """As the official `_truncate_seq_pair`, which pops one token at a time from the longer."""
    half = budget // 2  # what the second keeps where both are long
    if second < half:
        return budget - second, second
    if first < budget - half:
        return first, budget - first
    return budget - half, half


TRUNCATIONS: dict[str | bool, Callable[[int, int, int], tuple[int, int]]] = {
    "longest_first": _cut_longest,
    "only_first": lambda first, second, budget: (budget - second, second),
    "only_second": lambda first, second, budget: (first, budget - first),
    False: lambda first, second, budget: (-1, -1),
}
