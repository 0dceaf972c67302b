"""Schemes of tags: reading all of them, writing the one that a model learns.

Letters: B begins an entity, I goes on, E ends, S is one of a single word; M, W, U and L are what
BMES, BMEWO and BILOU call I, S, S and E.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from metrics.ner import NO_TYPE, OUTSIDE, Span
from processors.readers import DataError

MARKUPS = {"bio": "BI", "bios": "BIS", "bioes": "BIES"}  # scheme -> its letters
# Labels that models of the predecessor have beside their tags; they stand for no entity.
NO_TAGS = ("X", "[START]", "[END]", "[CLS]", "[SEP]", "[PAD]")

_LETTERS = {"B": "B", "I": "I", "E": "E", "S": "S", "M": "I", "W": "S", "U": "S", "L": "E"}
_TAG = re.compile(f"({'|'.join(_LETTERS)})(?:[-_](.+))?")


def plain_tag(tag: str) -> str | None:
    """A tag of any scheme in the letters of BIOES, or None for what is no tag."""
    if tag == OUTSIDE:
        return tag
    match = _TAG.fullmatch(tag)
    if match is None:
        return None
    return _LETTERS[match[1]] + (f"-{match[2]}" if match[2] else "")


def _tag(letter: str, kind: str) -> str:
    return letter if kind == NO_TYPE else f"{letter}-{kind}"


def tags_of(spans: Sequence[Span], length: int, markup: str) -> list[str]:
    """Entities of `length` words as tags of a scheme of `MARKUPS`."""
    letters, tags = MARKUPS[markup], [OUTSIDE] * length
    for kind, start, stop in spans:
        tags[start:stop] = [_tag("I", kind)] * (stop - start)
        if "E" in letters:
            tags[stop - 1] = _tag("E", kind)
        single = stop - start == 1 and "S" in letters
        tags[start] = _tag("S" if single else "B", kind)
    return tags


def labels_of_types(types: Sequence[str], markup: str) -> tuple[str, ...]:
    """All tags of a scheme, "O" first: the labels of a model."""
    return (OUTSIDE, *(_tag(letter, kind) for kind in types for letter in MARKUPS[markup]))


def labels_from_flag(words: Sequence[str], markup: str) -> tuple[str, ...]:
    """--labels: types of entities (PER LOC), or all tags in the order of their ids (O B-PER …)."""
    if OUTSIDE in words:
        markup_of_labels(words, "--labels")
        return tuple(words)
    tags = [word for word in words if re.match("[BIESM]-", word)]
    if tags:
        raise DataError(f"--labels: found the tag {tags[0]} and no {OUTSIDE}; expected either all "
                        f"tags with {OUTSIDE} among them, or types of entities without prefixes")
    return labels_of_types(words, markup)


def markup_of_labels(labels: Sequence[str], source: str) -> str:
    """The scheme of a model's labels. Raises `DataError` for labels that are no tags."""
    foreign = [label for label in labels if label not in NO_TAGS and (
        plain_tag(label) != label)]  # M- and the like are read in files only
    if foreign or OUTSIDE not in labels:
        raise DataError(f"{source}: found the labels {', '.join(labels[:12])}"
                        f"{' …' if len(labels) > 12 else ''}, expected {OUTSIDE} and tags such as "
                        "B-PER and I-PER")
    letters = {label[0] for label in labels if label not in (*NO_TAGS, OUTSIDE)}
    return "bioes" if "E" in letters else "bios" if "S" in letters else "bio"


def tag_of_label(label: str) -> str:
    """What a predicted label says of a word."""
    return OUTSIDE if label in NO_TAGS else label
