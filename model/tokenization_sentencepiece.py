"""SentencePiece as ALBERT's English models use it: text cleaning, pieces, character offsets."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np
import sentencepiece

from model.tokenization_files import TokenizerError
from model.tokenization_text import CharacterFilter, Spans

SPACE = "▁"  # how a model writes a space, at the beginning of most words
SPECIAL_TOKENS = {"pad": "<pad>", "unk": "<unk>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
MIN_BATCH = 32  # texts; a batch call starts a thread, which for fewer costs more than it saves

Offsets = list[tuple[int, int]]

# ASCII words with single spaces between them, which cleaning leaves in place; other characters.
_RUNS = re.compile("[!-~]+(?: [!-~]+)*|[^\\s!-~]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_COMBINING = CharacterFilter(lambda character: unicodedata.combining(character) != 0)

# Google's create_pretraining_data.py: a piece of these characters alone continues a word, unless
# it is a single mark. Everything else ("▁", a digit, a foreign letter, an apostrophe) starts one.
_MARKS = frozenset(string.punctuation) - frozenset("'<=>")
_WORD_CHARACTERS = frozenset(string.ascii_letters) | _MARKS


class SentencePieceModel:
    """The pieces of one SentencePiece model, by the rules of google-research/albert.

    The official code cleans in one place (`preprocess_text`: white space collapsed, NFKD, accents
    dropped, lower-cased) and splits in another (`encode_pieces`); both are done here. With
    `do_lower_case` and `strip_accents` off, the text goes to SentencePiece as it is.

    Speed: one batch call encodes some 10 MB of English a second and core, with cleaning. A cache of
    words would be faster once warm, yet it is not exact: scores are summed in float32 along the
    whole text, which may decide a tie inside a word. SentencePiece 0.2.0 holds the interpreter
    lock during the call, later ones give it up for a part of it: use processes, not threads.
    """

    def __init__(self, data: bytes, source: str, do_lower_case: bool, strip_accents: bool) -> None:
        self.do_lower_case = do_lower_case
        self.strip_accents = strip_accents
        self._processor = _load(data, source)
        everything = list(range(self._processor.get_piece_size()))
        self.tokens: list[str] = self._processor.id_to_piece(everything)
        self.id_of = {token: index for index, token in enumerate(self.tokens)}
        missing = [token for token in SPECIAL_TOKENS.values() if token not in self.id_of]
        if missing:
            raise TokenizerError(
                f"{source}: not a model for ALBERT, it has no piece {', '.join(missing)}; train it "
                "with --pad_id=0 --unk_id=1 --bos_id=-1 --eos_id=-1 "
                "--control_symbols=[CLS],[SEP],[MASK]"
            )
        processor = self._processor
        reserved = np.array(
            [processor.is_control(everything), processor.is_unknown(everything),
             processor.is_unused(everything), processor.is_byte(everything)]
        ).any(axis=0)  # (4, V) -> (V,)
        self.ordinary_ids = np.flatnonzero(~reserved)
        # What text can give: a control piece never comes from text, however it is written there.
        self._text_id = {self.tokens[index]: index for index in self.ordinary_ids.tolist()}
        self._unknown = self.id_of[SPECIAL_TOKENS["unk"]]
        self._split_pieces = {
            piece: self._split_comma(piece)
            for piece in self._text_id
            if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()
        }
        self._split_ids = {
            self._text_id[piece]: self._to_ids(parts) for piece, parts in self._split_pieces.items()
        }

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        rows = self._run([self._clean(text) for text in texts], int)
        for row, ids in enumerate(rows):
            if not self._split_ids.keys().isdisjoint(ids):
                rows[row] = list(chain.from_iterable(self._split_ids.get(i, (i,)) for i in ids))
        return rows

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], Offsets]]:
        """Ids, and which characters of a text each stands for, without the space before a word.

        A "▁" that stands alone covers nothing: (s, s), where s is the next character.
        """
        cleaned = [self._clean(text) for text in texts]
        return [
            (self._to_ids(pieces), self._offsets(pieces, clean, self._spans(text)))
            for text, clean, pieces in zip(texts, cleaned, self._pieces(cleaned), strict=True)
        ]

    def tokenize(self, text: str) -> list[str]:
        """The pieces; an unknown one is the text itself, as in the official code."""
        return self._pieces([self._clean(text)])[0]

    def starts_word(self) -> np.ndarray:
        """(V,) bool: the official `_is_start_piece_sp`, and every piece that is not text."""
        starts = np.array([_starts_word(token) for token in self.tokens])
        starts[np.setdiff1d(np.arange(len(starts)), self.ordinary_ids)] = True
        return starts

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens).replace(SPACE, " ").strip()

    def _clean(self, text: str) -> str:
        """The official `preprocess_text`."""
        if "  " in text or not text.isprintable():  # the only printable white space is " "
            return self._normalise(" ".join(text.split()))
        return self._normalise(text.strip())

    def _normalise(self, text: str) -> str:
        if self.strip_accents and not text.isascii():
            text = unicodedata.normalize("NFKD", text).translate(_COMBINING)
        return text.lower() if self.do_lower_case else text

    def _spans(self, text: str) -> Spans:
        """Where each character of `self._clean(text)` comes from."""
        spans = Spans()
        previous = 0
        for run in _RUNS.finditer(text):
            start, end = run.span()
            if previous and previous < start:
                spans.add_one(previous, start)
            if run[0].isascii():
                spans.add_unchanged(start, end)
            else:
                spans.add(start, run[0], self._normalise)
            previous = end
        return spans

    def _offsets(self, pieces: list[str], cleaned: str, spans: Spans) -> Offsets:
        if not pieces:
            return []
        # The pieces spell the normalised text, which came from the cleaned one, and that from ours.
        cleaned = self._encodable(cleaned)
        normalised, sources = self._processor.normalize(cleaned, with_offsets=True)
        stop = list(accumulate(map(len, pieces)))
        if stop[-1] != len(normalised):
            raise TokenizerError(
                f"pieces {pieces} do not spell {normalised!r}: offsets need a model that keeps the "
                "text of unknown characters, so one without byte_fallback"
            )
        following = sources[1:]  # where the next character came from, beyond those that became one
        for place in range(len(following) - 2, -1, -1):
            if following[place] == sources[place]:
                following[place] = following[place + 1]
        offsets = []
        starts, ends = [*spans.starts, spans.ends[-1]], spans.ends
        for piece, end in zip(pieces, stop, strict=True):
            bare = len(piece.lstrip(SPACE))
            start = starts[sources[end - bare]]
            offsets.append((start, ends[following[end - 1] - 1] if bare else start))
        return offsets

    def _pieces(self, cleaned: list[str]) -> list[list[str]]:
        rows = self._run(cleaned, str)
        split = self._split_pieces
        for row, pieces in enumerate(rows):
            if not split.keys().isdisjoint(pieces):
                rows[row] = list(chain.from_iterable(split.get(p, (p,)) for p in pieces))
        return rows

    def _split_comma(self, piece: str) -> list[str]:
        """ALBERT's own rule: "▁9," is "▁9" and ",", so that a number looks the same before both."""
        parts = self._processor.encode(piece[:-1].replace(SPACE, ""), out_type=str)
        if not piece.startswith(SPACE) and parts[0].startswith(SPACE):
            parts = [parts[0][1:], *parts[1:]] if len(parts[0]) > 1 else parts[1:]
        return [*parts, ","]

    def _to_ids(self, pieces: Sequence[str]) -> list[int]:
        return [self._text_id.get(piece, self._unknown) for piece in pieces]

    def _run(self, texts: list[str], out_type: type) -> list[list]:
        try:
            return self._encode(texts, out_type)
        except (TypeError, RuntimeError):  # how the binding refuses what UTF-8 cannot carry
            return self._encode([self._encodable(text) for text in texts], out_type)

    def _encode(self, texts: list[str], out_type: type) -> list[list]:
        encode = self._processor.encode
        if len(texts) < MIN_BATCH:
            return [encode(text, out_type=out_type) for text in texts]
        return encode(texts, out_type=out_type, num_threads=1)

    @staticmethod
    def _encodable(text: str) -> str:
        """Half of a surrogate pair, which broken JSON brings, is read as U+FFFD."""
        return _SURROGATE.sub("\ufffd", text)


def _load(data: bytes, source: str) -> sentencepiece.SentencePieceProcessor:
    try:
        if not data:
            raise RuntimeError("the file is empty")
        return sentencepiece.SentencePieceProcessor(model_proto=data)
    except RuntimeError as error:
        raise TokenizerError(
            f"{source}: not a SentencePiece model ({error}); expected the binary .model file "
            "that comes with the checkpoint, downloaded whole"
        ) from error


def _starts_word(piece: str) -> bool:
    return piece in _MARKS or not _WORD_CHARACTERS.issuperset(piece)
