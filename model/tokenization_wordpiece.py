"""WordPiece as BERT's and ALBERT's Chinese models use it: words, pieces, character offsets."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from model.tokenization_files import TokenizerError
from model.tokenization_text import CharacterFilter, Spans

CONTINUES = "##"  # marks a piece that continues a word
SPECIAL_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
MAX_WORD = 200  # characters; a longer word is [UNK]
MAX_CACHED_WORDS = 1 << 18  # some 60 MB

# What the official code takes for a Chinese character: each is a word of its own.
CJK = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002b820-\U0002ceaf"
    "\U0002f800-\U0002fa1f"
)
# White space that separates words. (Python's has control characters too; they are dropped here.)
WHITE = " \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# Punctuation common enough to cut off before a word is looked up; the rest is cut off after.
MARKS = (
    "!-/:-@\\[-`{-~\u2010-\u2027\u2030-\u203e\u3001-\u3003\u3008-\u3011\u3014-\u301f"
    "\uff01-\uff03\uff05-\uff0a\uff0c-\uff0f\uff1a\uff1b\uff1f\uff20"
)
_WORDS = re.compile(f"[{CJK}{MARKS}]|[^{WHITE}{CJK}{MARKS}]+")
# A capital sigma is lower-cased by what surrounds it, across punctuation.
_WHOLE_WORDS = re.compile(f"[{CJK}]|[^{WHITE}{CJK}]+")
_WIDE = "\u3000-\u303f\uff00-\uffef"  # Chinese punctuation, which brings its own space
_SPACE_IN_CHINESE = re.compile(f"(?<=[{CJK}]) (?=[{CJK}])|(?<=[{_WIDE}]) | (?=[{_WIDE}])")
_PLACEHOLDER = re.compile(r"\[.+\]|<.+>")  # [unused1], <S>: cut into pieces if met in text

_ASCII_PUNCTUATION = frozenset(string.punctuation)
_DROPPED = CharacterFilter(
    lambda c: c == "\ufffd" or (c not in "\t\n\r" and unicodedata.category(c) in ("Cc", "Cf"))
)
_ACCENTS = CharacterFilter(lambda c: unicodedata.category(c) == "Mn")

Offsets = list[tuple[int, int]]
Piece = tuple[int, int, int]  # id, first character, character after the last


class WordPieceModel:
    """The pieces of one WordPiece vocabulary, by the rules of google-research/bert and albert.

    The official code cleans (control characters dropped, Chinese characters set apart), splits at
    white space, lower-cases, drops accents, splits at punctuation, then takes the longest known
    piece from the left. All but the first two regard one word at a time, so the pieces of a word
    are found once and remembered. That is exact and encodes some 10 MB of Chinese a second and
    core, five times what the `tokenizers` library does (which also differs on private-use
    characters, the final sigma and 256 rare Chinese ones). The interpreter lock is held: for more
    cores use processes.
    """

    def __init__(self, data: bytes, source: str, do_lower_case: bool, strip_accents: bool) -> None:
        self.do_lower_case = do_lower_case
        self.strip_accents = strip_accents
        self.tokens = _read_vocabulary(data, source)
        self.id_of = {token: index for index, token in enumerate(self.tokens)}
        self._unknown = self.id_of[SPECIAL_TOKENS["unk"]]
        self._longest = max(map(len, self.tokens))
        ordinary = [not _PLACEHOLDER.fullmatch(token) for token in self.tokens]
        self.ordinary_ids = np.flatnonzero(ordinary)
        self._ids_of_word = _Memory(self._find_ids)
        self._spans_of_word = _Memory(self._find_spans)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        ids = self._ids_of_word.__getitem__
        return [list(chain.from_iterable(map(ids, self._words(t).findall(t)))) for t in texts]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], Offsets]]:
        """Ids, and which characters of a text each stands for."""
        return [self._encode_with_offsets(text) for text in texts]

    def tokenize(self, text: str) -> list[str]:
        [ids] = self.encode_batch([text])
        return [self.tokens[index] for index in ids]

    def starts_word(self) -> np.ndarray:
        """(V,) bool: not "##…"."""
        return np.array([not token.startswith(CONTINUES) for token in self.tokens])

    def join(self, tokens: Sequence[str]) -> str:
        text = " ".join(tokens).replace(f" {CONTINUES}", "")
        return _SPACE_IN_CHINESE.sub("", text)

    def _encode_with_offsets(self, text: str) -> tuple[list[int], Offsets]:
        ids: list[int] = []
        offsets: Offsets = []
        for match in self._words(text).finditer(text):
            place = match.start()
            for token, start, stop in self._spans_of_word[match[0]]:
                ids.append(token)
                offsets.append((place + start, place + stop))
        return ids, offsets

    def _words(self, text: str) -> re.Pattern[str]:
        return _WHOLE_WORDS if self.do_lower_case and "Σ" in text else _WORDS

    def _normalise(self, word: str) -> str:
        word = word.translate(_DROPPED)
        if self.do_lower_case:
            word = word.lower()
        if self.strip_accents and not word.isascii():
            word = unicodedata.normalize("NFD", word).translate(_ACCENTS)
        return word

    def _find_ids(self, word: str) -> tuple[int, ...]:
        return tuple(token for token, _, _ in self._split(self._normalise(word)))

    def _find_spans(self, word: str) -> list[Piece]:
        spans = Spans()
        spans.add(0, word, self._normalise)
        return [
            (token, spans.starts[start], spans.ends[stop - 1])
            for token, start, stop in self._split(self._normalise(word))
        ]

    def _split(self, text: str) -> list[Piece]:
        """The pieces of a normalised text without white space."""
        spans = _split_at_punctuation(text)
        return list(chain.from_iterable(self._longest_first(text, *span) for span in spans))

    def _longest_first(self, text: str, start: int, stop: int) -> list[Piece]:
        """The pieces of the word `text[start:stop]`, or one [UNK] where a part is not known."""
        unknown = [(self._unknown, start, stop)]
        if stop - start > MAX_WORD:
            return unknown
        pieces: list[Piece] = []
        place, prefix = start, ""
        while place < stop:
            for end in range(min(stop, place + self._longest), place, -1):
                token = self.id_of.get(prefix + text[place:end])
                if token is not None:
                    break
            else:
                return unknown
            pieces.append((token, place, end))
            place, prefix = end, CONTINUES
        return pieces


class _Memory(dict[str, Any]):
    """Remembers what `find` said of each word of sensible length; forgets all when full."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, word: str) -> Any:
        found = self._find(word)
        if len(word) <= MAX_WORD:
            if len(self) >= MAX_CACHED_WORDS:
                self.clear()
            self[word] = found
        return found


def _split_at_punctuation(text: str) -> Iterator[tuple[int, int]]:
    """(start, stop) of each word and of each single punctuation mark."""
    start = 0
    for place, character in enumerate(text):
        if character in _ASCII_PUNCTUATION or unicodedata.category(character).startswith("P"):
            if start < place:
                yield start, place
            yield place, place + 1
            start = place + 1
    if start < len(text):
        yield start, len(text)


def _read_vocabulary(data: bytes, source: str) -> list[str]:
    """One token a line; its id is the number of the line, counted from 0."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TokenizerError(
            f"{source}, line {line}: not UTF-8 ({error.reason}); save the vocabulary as UTF-8"
        ) from error
    # A token may be an exotic line break of its own (U+2028), so only "\n" ends a line.
    lines = text.rstrip("\r\n").split("\n")
    tokens = [fields[0] if (fields := line.split()) else line.rstrip("\r") for line in lines]
    first_line: dict[str, int] = {}
    for number, token in enumerate(tokens, start=1):
        if token in first_line:
            raise TokenizerError(
                f"{source}: {token!r} stands on lines {first_line[token]} and {number}; the line "
                "is the id, so each token must be there once"
            )
        first_line[token] = number
    missing = [token for token in SPECIAL_TOKENS.values() if token not in first_line]
    if missing:
        raise TokenizerError(
            f"{source}: not a WordPiece vocabulary, {len(tokens)} lines without "
            f"{', '.join(missing)}; expected the vocab.txt that comes with the checkpoint"
        )
    return tokens
