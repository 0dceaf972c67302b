"""Entities in sequences of tags: which there are, and precision, recall and F1 over them.

The numbers are those of seqeval: its default mode, which is the rule of the CoNLL script
(conlleval), and its strict mode for the schemes BIO (IOB2) and BIOES. An entity counts as found
where its type and both ends are right.

A tag is "O", or a prefix and a type: "B-person". A prefix alone ("B") has the type "_".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from metrics.classification import MetricError, Scores

OUTSIDE = "O"
NO_TYPE = "_"
PREFIXES = "BIES"

Span = tuple[str, int, int]  # type, first word, word after the last


def split_tag(tag: str) -> tuple[str, str]:
    """ "B-creative-work" -> ("B", "creative-work"). Raises `MetricError` for what is no tag."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, kind = tag[:1], tag[1:2], tag[2:]
    if prefix not in PREFIXES or not prefix or dash not in ("", "-") or bool(dash) != bool(kind):
        raise MetricError(f"found the tag {tag!r}, expected {OUTSIDE}, or one of "
                          f"{', '.join(PREFIXES)} with a type, as in B-person")
    return prefix, kind or NO_TYPE


def continues(before: tuple[str, str], tag: tuple[str, str]) -> bool:
    """Whether a tag goes on with the entity of the tag before it, by the rule of `entities`."""
    return before[0] in ("B", "I") and tag[0] in ("I", "E") and before[1] == tag[1]


def entities(tags: Sequence[str]) -> list[Span]:
    """The entities of one sequence in the default mode, which makes something of any sequence.

    I and E go on with an entity of their own type that has not ended, and begin one where there is
    none. This reads BIO, IOB1 and BIOES alike. Raises `MetricError` for what is no tag.
    """
    found: list[Span] = []
    before, start = (OUTSIDE, ""), 0
    for place, tag in enumerate([*map(split_tag, tags), (OUTSIDE, "")]):
        if continues(before, tag):
            before = tag
            continue
        if before[0] != OUTSIDE:
            found.append((before[1], start, place))
        before, start = tag, place
    return found


def strict_entities(tags: Sequence[str], scheme: str) -> list[Span]:
    """Only what the scheme allows: "bio" is B I*, "bioes" is B I* E, or S. The rest is nothing.

    Raises `MetricError` for another scheme and for prefixes that it does not have.
    """
    if scheme not in ("bio", "bioes"):
        raise MetricError(f"no strict mode for the scheme {scheme!r}; there are: bio, bioes")
    pairs = [*map(split_tag, tags)]
    foreign = {prefix for prefix, _ in pairs} - {OUTSIDE, *scheme.upper()}
    if foreign:
        raise MetricError(f"found the prefixes {', '.join(sorted(foreign))}, expected those of "
                          f"{scheme}")
    found: list[Span] = []
    for start, (prefix, kind) in enumerate(pairs):
        if prefix not in ("B", "S"):
            continue
        stop = start + 1
        while prefix == "B" and stop < len(pairs) and continues(pairs[stop - 1], pairs[stop]):
            stop += 1
        if scheme == "bio" or pairs[stop - 1][0] in ("E", "S"):
            found.append((kind, start, stop))
    return found


@dataclass(frozen=True)
class Found:
    """Counts of entities, and what follows from them: 0 where nothing is divided by nothing."""

    correct: int  # found, with the right type and ends
    predicted: int
    wanted: int

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.wanted if self.wanted else 0.0

    @property
    def f1(self) -> float:
        together = self.predicted + self.wanted
        return 2 * self.correct / together if together else 0.0


def count_entities(wanted: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]],
                   strict: str | None = None) -> dict[str, Found]:
    """Counts by type, in the order of the alphabet. strict: None, "bio" or "bioes".

    Raises `MetricError` where sequences differ in number or length.
    """
    _check(wanted, predicted)
    counts = {name: Counter() for name in ("correct", "predicted", "wanted")}
    for gold, guess in zip(wanted, predicted, strict=True):
        there, said = (set(entities(tags) if strict is None else strict_entities(tags, strict))
                       for tags in (gold, guess))
        for name, spans in (("correct", there & said), ("predicted", said), ("wanted", there)):
            counts[name].update(kind for kind, _, _ in spans)
    kinds = sorted(counts["predicted"] | counts["wanted"])
    return {kind: Found(**{name: count[kind] for name, count in counts.items()})
            for kind in kinds}


def total(by_type: dict[str, Found]) -> Found:
    """All types together (the "micro average")."""
    return Found(*(sum(getattr(found, name) for found in by_type.values())
                   for name in ("correct", "predicted", "wanted")))


def type_table(by_type: dict[str, Found]) -> list[str]:
    """A line for each type."""
    width = max(map(len, by_type), default=0)
    return [f"{kind:{width}}  precision {found.precision:.4f}  recall {found.recall:.4f}  "
            f"f1 {found.f1:.4f}  ({found.correct} right, {found.predicted} predicted, "
            f"{found.wanted} there)" for kind, found in by_type.items()]


def score_entities(wanted: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
    """Entity F1 (which decides), precision and recall, and the share of words with the right tag.

    The constant guess is "O" everywhere: it finds no entity. Raises `MetricError` where sequences
    differ in number or length, and where there is no word.
    """
    whole = total(count_entities(wanted, predicted))
    gold = [tag for tags in wanted for tag in tags]
    said = [tag for tags in predicted for tag in tags]
    if not gold:
        raise MetricError("found no words, expected at least 1")
    right = sum(a == b for a, b in zip(gold, said, strict=True))
    notes = []
    collapsed = len(set(said)) == 1 and len(set(gold)) > 1
    if collapsed:
        notes.append(f'collapsed: all {len(said)} words are predicted "{said[0]}"')
    if not whole.wanted:
        notes.append("there is no entity to find, so F1, precision and recall are given as 0")
    return Scores(
        values={"f1": whole.f1, "precision": whole.precision, "recall": whole.recall,
                "token_accuracy": right / len(gold)},
        baseline={"f1": 0.0, "precision": 0.0, "recall": 0.0,
                  "token_accuracy": gold.count(OUTSIDE) / len(gold)},
        baseline_guess=f'always "{OUTSIDE}"', main="f1", examples=len(wanted),
        collapsed=collapsed, notes=tuple(notes))


def _check(wanted: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
    if len(wanted) != len(predicted):
        raise MetricError(f"found {len(predicted)} predicted sequences for {len(wanted)}")
    for number, (gold, guess) in enumerate(zip(wanted, predicted, strict=True)):
        if len(gold) != len(guess):
            raise MetricError(f"sequence {number}: found {len(guess)} predicted tags for "
                              f"{len(gold)} words")
