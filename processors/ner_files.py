"""Files of entities: CoNLL columns and CLUENER's JSON lines, read to sentences and written.

Whatever a file's own scheme of tags, a sentence holds entities (type, first word, word after the
last), so that one file may be IOB1 and the next BMES. `ner_tags.tags_of` writes them in the scheme
that a model learns.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from metrics.ner import OUTSIDE, Span, continues, entities
from processors.ner_tags import plain_tag
from processors.readers import DataError, read_rows, read_text

logger = logging.getLogger(__name__)

CONLL, CLUENER = "conll", "cluener"
FORMATS = (CONLL, CLUENER)
DOCUMENT = "-DOCSTART-"
MAX_SKIPPED = 0.01  # of the sentences; above it the file is something else, not damaged


@dataclass(slots=True)
class Sentence:
    """One sentence. In CLUENER a word is a character, white space too."""

    guid: str
    words: list[str]
    spans: list[Span] | None  # in the order of the words; None where the file has no tags
    place: str  # file and line, for messages


@dataclass
class EntitySplit:
    """What one file gave."""

    name: str
    path: Path
    file_format: str
    sentences: list[Sentence]
    notes: list[str] = field(default_factory=list)  # what was left out, for people to read

    @property
    def labelled(self) -> bool:
        return all(sentence.spans is not None for sentence in self.sentences)

    @property
    def types(self) -> list[str]:
        """Types of entities that occur, in the order of the alphabet."""
        return sorted({kind for s in self.sentences for kind, _, _ in s.spans or ()})

    def __len__(self) -> int:
        return len(self.sentences)


def format_of(path: Path, file_format: str | None = None) -> str:
    """CLUENER for JSON, CoNLL for every other suffix, unless a format is given."""
    return file_format or (CLUENER if path.suffix.lower() in (".json", ".jsonl") else CONLL)


def load_entities(path: Path, name: str, file_format: str | None = None, labels: str = "required",
                  skip_bad_lines: bool = False) -> EntitySplit:
    """Read one file; what was left out is logged.

    labels: "required", or "optional" for files to predict, which may have no tags at all.
    skip_bad_lines: sentences that cannot be read are left out and counted, up to 1 in 100.
    Raises `DataError` that names file and line, says what was found and what was expected.
    """
    file_format = format_of(path, file_format)
    notes: list[str] = []
    reader = {CONLL: _read_conll, CLUENER: _read_cluener}[file_format]
    sentences, bad = reader(path, labels == "required", notes)
    if bad:
        first, count = bad[0], f"{len(bad)} of {len(sentences) + len(bad)} sentences"
        if not skip_bad_lines:
            raise DataError(f"{first} ({count} cannot be read; mend the file, or leave them out "
                            "with --skip_bad_lines)")
        if len(bad) > max(1, MAX_SKIPPED * (len(sentences) + len(bad))):
            raise DataError(f"{first}; {count} are like this, too many to leave out: is this the "
                            f"format {file_format}?")
        notes.append(f"{first}; left out {count}")
    if not sentences:
        raise DataError(f"{path}: no sentence, expected at least one")
    for note in notes:
        logger.warning(note)
    return EntitySplit(name, path, file_format, sentences, notes)


# ---- CoNLL -------------------------------------------------------------------------------------


def _read_conll(path: Path, need_tags: bool, notes: list[str],
                ) -> tuple[list[Sentence], list[str]]:
    """A word a line, columns between tabs or spaces, its tag in the last; blank lines between."""
    rows, width = _conll_rows(path, need_tags, notes)
    has_tags = need_tags or width > 1
    sentences: list[Sentence] = []
    bad: list[str] = []
    words: list[str] = []
    tags: list[str] = []
    begin, problem, odd = 0, None, 0
    for number, cells in [*rows, (0, [])]:
        if cells:
            begin = begin if words else number
            words.append(cells[0])
            tags.append((plain_tag(cells[-1]) if has_tags else None) or OUTSIDE)
            found = _row_problem(cells, width, has_tags, need_tags)
            if found and problem is None:
                problem = f"{path}, line {number}: {found}"
            continue
        if problem is not None:
            bad.append(problem)
        elif words:
            odd += _begins_inside(tags)
            sentences.append(Sentence(str(len(sentences) + len(bad)), words,
                                      entities(tags) if has_tags else None,
                                      f"{path}, line {begin}"))
        words, tags, problem = [], [], None
    if odd:
        logger.info("%s: %d entities begin with I- or E- (IOB1, or a slip); read as the CoNLL "
                    "script reads them", path, odd)
    return sentences, bad


def _conll_rows(path: Path, need_tags: bool, notes: list[str],
                ) -> tuple[list[tuple[int, list[str]]], int]:
    """(line, columns) of the words, without columns where a sentence ends; how many columns."""
    rows: list[tuple[int, list[str]]] = []
    comments = documents = width = 0
    # Only "\n" ends a line: str.splitlines would also cut at characters that tweets contain.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        line = line.rstrip("\r\t ")
        cells = line.split("\t") if "\t" in line else [c for c in line.split(" ") if c]
        if not line.replace("\ufeff", "").strip():  # WNUT17's dev file ends with a stray mark
            rows.append((number, []))
        elif cells[0].startswith(DOCUMENT):
            documents += 1
            rows.append((number, []))
        elif line.startswith("# ") and not _is_word(cells, width):
            comments += 1
        else:
            if not width and (len(cells) > 1 or not need_tags):
                width = len(cells)
            rows.append((number, cells))
    if comments:
        notes.append(f"{path}: left out {comments} comment lines (\"# …\")")
    if documents:
        logger.info("%s: %d documents", path, documents)
    return rows, width


def _is_word(cells: list[str], width: int) -> bool:
    """Whether a line that begins with "# " is a word and its tag ("# O") and no comment."""
    return len(cells) == (width or 2) and plain_tag(cells[-1]) is not None


def _row_problem(cells: list[str], width: int, has_tags: bool, need_tags: bool) -> str | None:
    if has_tags and len(cells) == 1:
        return f"found {cells[0]!r} alone, expected a word and its tag between tabs or spaces"
    if len(cells) != width:
        return f"found {len(cells)} columns, expected {width} as on the first line with a word"
    if has_tags and plain_tag(cells[-1]) is None:
        hint = "" if need_tags else ("; a file to predict that has no tags has the word alone on "
                                     "each line")
        return (f"found {cells[-1]!r} in the last column, expected a tag such as O, B-PER or "
                f"I-PER{hint}")
    return None


def _begins_inside(tags: Sequence[str]) -> int:
    """How many entities begin with another prefix than B and S."""
    pairs = [(tag[0], tag[2:]) for tag in (OUTSIDE, *tags)]
    return sum(tag[0] in "IE" and not continues(before, tag)
               for before, tag in pairwise(pairs))


# ---- CLUENER -----------------------------------------------------------------------------------


def _read_cluener(path: Path, need_tags: bool, notes: list[str],
                  ) -> tuple[list[Sentence], list[str]]:
    """{"text": …, "label": {type: {surface: [[first, last character], …]}}} on each line."""
    rows = read_rows(path, "json")
    sentences: list[Sentence] = []
    bad: list[str] = []
    overlaps: Counter[str] = Counter()
    has_tags = need_tags or all("label" in item for item in rows.objects)
    for index, item in enumerate(rows.objects):
        text = item.get("text")
        if not isinstance(text, str) or not text:
            bad.append(f"{rows.at(index)}: found "
                       + (f"the keys {', '.join(item)}" if text is None else f"the text {text!r}")
                       + ", expected \"text\" with a text")
            continue
        try:
            spans = _spans_of(item, text, overlaps) if has_tags else None
        except DataError as error:
            bad.append(f"{rows.at(index)}: {error}")
            continue
        guid = str(item.get("id", index))
        sentences.append(Sentence(guid, list(text), spans, rows.at(index)))
    if overlaps:
        notes.append(f"{path}: left out {overlaps.total()} entities that overlap with a longer one "
                     f"({', '.join(f'{n} {kind}' for kind, n in sorted(overlaps.items()))}): a "
                     "word has one tag")
    return sentences, bad


def _spans_of(item: Mapping[str, Any], text: str, overlaps: Counter[str]) -> list[Span]:
    label = item.get("label")
    if not isinstance(label, dict):
        raise DataError(f"found {_shown(label)} as \"label\", expected an object such as "
                        '{"name": {"叶老桂": [[9, 11]]}}')
    found: set[Span] = set()
    for kind, surfaces in label.items():
        if not isinstance(surfaces, dict):
            raise DataError(f"found {_shown(surfaces)} for {kind}, expected an object such as "
                            '{"叶老桂": [[9, 11]]}')
        for surface, places in surfaces.items():
            for place in places if isinstance(places, list) else [places]:
                if not (isinstance(place, list) and len(place) == 2
                        and all(type(end) is int for end in place)):
                    raise DataError(f"found {_shown(place)} as the place of {surface!r}, expected "
                                    "its first and last character, such as [9, 11]")
                first, last = place
                there = text[first:last + 1] if 0 <= first <= last < len(text) else ""
                if there != surface:
                    raise DataError(f"found {there!r} at characters {first} to {last} of the "
                                    f"text (it has {len(text)}), expected {surface!r} ({kind})")
                found.add((kind, first, last + 1))
    kept: list[Span] = []
    for span in sorted(found, key=lambda s: (s[1] - s[2], s[1], s[0])):  # the longest first
        if any(span[1] < stop and start < span[2] for _, start, stop in kept):
            overlaps[span[0]] += 1
        else:
            kept.append(span)
    return sorted(kept, key=lambda s: s[1])


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]


# ---- writing -----------------------------------------------------------------------------------


def write_conll(path: Path, sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]],
                gold: Sequence[Sequence[str]] | None) -> None:
    """word, tag of the file (where it has any), predicted tag; with tabs, as conlleval -d reads."""
    blocks = []
    for number, (sentence, tags) in enumerate(zip(sentences, predicted, strict=True)):
        columns = (sentence.words, tags) if gold is None else (sentence.words, gold[number], tags)
        blocks.append("".join("\t".join(row) + "\n" for row in zip(*columns, strict=True)))
    _write(path, "\n".join(blocks))


def write_cluener(path: Path, sentences: Sequence[Sentence],
                  predicted: Sequence[Sequence[str]]) -> None:
    """CLUE's submission: {"id": 0, "label": {type: {surface: [[first, last character]]}}}."""
    lines = []
    for sentence, tags in zip(sentences, predicted, strict=True):
        label: dict[str, dict[str, list[list[int]]]] = {}
        for kind, start, stop in entities(tags):
            surface = "".join(sentence.words[start:stop])
            label.setdefault(kind, {}).setdefault(surface, []).append([start, stop - 1])
        guid = int(sentence.guid) if sentence.guid.isdecimal() else sentence.guid
        lines.append(json.dumps({"id": guid, "label": label}, ensure_ascii=False) + "\n")
    _write(path, "".join(lines))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
