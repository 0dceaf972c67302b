"""Text to ids and back: SentencePiece for ALBERT's English models, WordPiece for the Chinese ones.

    tokenizer = AlbertTokenizer.from_pretrained("prev_trained_model/albert_base_v2")
    encoding = tokenizer(["a question"], ["a passage"], max_length=384, return_offsets=True)

The rules are those of google-research/albert (tokenization.py) and, for WordPiece, of
google-research/bert, on which brightmart/albert_zh builds too.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from model import tokenization_sentencepiece, tokenization_wordpiece
from model.tokenization_encoding import TRUNCATIONS, Encoding, Offsets, join, kept_lengths
from model.tokenization_files import (
    FILE_NAMES,
    SENTENCEPIECE,
    SETTINGS_NAME,
    WORDPIECE,
    TokenizerError,
    find_tokenizer_file,
    read_settings,
)
from model.tokenization_sentencepiece import SentencePieceModel
from model.tokenization_wordpiece import CJK, WordPieceModel

__all__ = [
    "CJK",
    "AlbertTokenizer",
    "Encoding",
    "SentencePieceTokenizer",
    "TokenizerError",
    "WordPieceTokenizer",
]

logger = logging.getLogger(__name__)


class AlbertTokenizer:
    """What both tokenizers share. Make one with `from_pretrained`, or from a file with a subclass.

    `do_lower_case` is on unless told otherwise. `strip_accents` is on for SentencePiece and follows
    `do_lower_case` for WordPiece, as in the official code. Special tokens written in a text
    ("[MASK]", "<pad>") are plain characters, as in the official code, unless a call says
    `special_in_text=True`.

    Attributes: `tokens` (list, by id), `special_ids` and `ordinary_ids` (int arrays; the latter
    are what text can give, without placeholders such as [unused1]), `starts_word` ((V,) bool: may
    begin a word that is masked as a whole).
    """

    kind: ClassVar[str]
    hugging_face_name: ClassVar[str]  # saved, so that transformers opens the folder too
    special_tokens: ClassVar[dict[str, str]]
    model_class: ClassVar[type[SentencePieceModel] | type[WordPieceModel]]

    def __init__(
        self,
        file: str | Path,
        do_lower_case: bool | None = None,
        strip_accents: bool | None = None,
    ) -> None:
        """Reads one tokenizer file. Raises `TokenizerError` if it is not one."""
        self.file = Path(file)
        self.do_lower_case = True if do_lower_case is None else do_lower_case
        default = self.kind == SENTENCEPIECE or self.do_lower_case
        self.strip_accents = default if strip_accents is None else strip_accents
        self._build(self.file.read_bytes())

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path | None,
        do_lower_case: bool | None = None,
        strip_accents: bool | None = None,
        vocab_file: str | Path | None = None,
        spm_model_file: str | Path | None = None,
    ) -> AlbertTokenizer:
        """The tokenizer of a model folder, or of the file that an argument names.

        Settings come from the arguments, else from `tokenizer_config.json` in the folder (without
        a folder: beside the file), else from the defaults. `model.tokenization_files` says which
        file is taken. Raises `TokenizerError` where that is not clear.
        """
        kinds = tuple(kind for kind, known in TOKENIZERS.items() if issubclass(known, cls))
        kind, file = find_tokenizer_file(folder, vocab_file, spm_model_file, kinds)
        saved = read_settings(file.parent if folder is None else Path(folder))
        settings: dict[str, bool | None] = {}
        for name, given in (("do_lower_case", do_lower_case), ("strip_accents", strip_accents)):
            settings[name] = saved.get(name) if given is None else given
            if saved.get(name) not in (None, settings[name]):
                logger.warning("%s is %s as asked for; the folder was saved with %s = %s",
                               name, given, name, saved[name])
        return TOKENIZERS[kind](file, **settings)

    def save_pretrained(self, folder: str | Path) -> None:
        """Writes `spiece.model` or `vocab.txt`, byte for byte as read, and the settings."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE_NAMES[self.kind][0]).write_bytes(self._data)
        settings = {
            "tokenizer_class": self.hugging_face_name,
            "do_lower_case": self.do_lower_case,
            "strip_accents": self.strip_accents,
            "keep_accents": not self.strip_accents,
        }
        text = json.dumps(settings, indent=2) + "\n"
        (folder / SETTINGS_NAME).write_text(text, encoding="utf-8")

    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        max_length: int | None = None,
        truncation: str | bool = "longest_first",
        return_offsets: bool = False,
        special_in_text: bool = False,
    ) -> Encoding:
        """Encodes B texts, or B pairs of texts. One `str` is a batch of one.

        `max_length` counts the special tokens. `truncation`: "longest_first" takes tokens from the
        end of the longer text, of `pairs` where both are as long (the official rule);
        "only_first" and "only_second" cut one side; False raises `ValueError` instead of cutting.
        """
        firsts = _as_batch(texts, "texts")
        seconds = None if pairs is None else _as_batch(pairs, "pairs")
        if seconds is not None and len(firsts) != len(seconds):
            raise ValueError(f"{len(firsts)} texts but {len(seconds)} pairs; each text needs one")
        if max_length is not None and max_length < 3:
            raise ValueError(f"max_length is {max_length}; [CLS], a token and [SEP] take 3")
        if truncation not in TRUNCATIONS or (truncation == "only_second" and seconds is None):
            raise ValueError(
                f"truncation is {truncation!r}; expected one of {list(TRUNCATIONS)}, and "
                "only_second needs pairs"
            )
        encode = self._encode_with_offsets if return_offsets or special_in_text else self._encode
        a_ids, a_offsets = encode(firsts, special_in_text)
        b_ids, b_offsets = (None, None) if seconds is None else encode(seconds, special_in_text)

        lengths = [(len(a), len(b)) for a, b in zip(a_ids, b_ids or [()] * len(a_ids), strict=True)]
        budget = None if max_length is None else max_length - (2 if b_ids is None else 3)
        kept = kept_lengths(lengths, budget, truncation)
        return Encoding(
            input_ids=join(a_ids, b_ids, kept, self.cls_token_id, self.sep_token_id),
            token_type_ids=[
                [0] * (a + 2) + [1] * (b + 1) * (seconds is not None) for a, b in kept
            ],
            lengths=kept,
            offsets=join(a_offsets, b_offsets, kept, (0, 0), (0, 0)) if return_offsets else None,
            truncated=sum(before != after for before, after in zip(lengths, kept, strict=True)),
        )

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids without special tokens: the fast path for whole corpora. Give it many texts."""
        return self.model.encode_batch(_as_batch(texts, "texts"))

    def tokenize(self, text: str) -> list[str]:
        """Pieces without special tokens. SentencePiece shows an unknown piece as it is written."""
        return self.model.tokenize(text)

    def convert_tokens_to_ids(self, tokens: Sequence[str]) -> list[int]:
        return [self.model.id_of.get(token, self.unk_token_id) for token in tokens]

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return [self.tokens[index] for index in ids]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Readable text. What cleaning took away (case, accents, double spaces) stays away."""
        dropped = set(self.special_ids.tolist()) if skip_special_tokens else set()
        return self.model.join([self.tokens[index] for index in ids if index not in dropped])

    def check_config(
        self, vocab_size: int, pad_token_id: int = 0, source: str | Path = "config.json"
    ) -> None:
        """Raises `TokenizerError` unless a model's vocabulary is this one, to the last entry."""
        problems = []
        if vocab_size != len(self):
            problems.append(f"{source} has vocab_size {vocab_size}, {self.file} {len(self)} tokens")
        if pad_token_id != self.pad_token_id:
            problems.append(
                f"{source} has pad_token_id {pad_token_id}, in {self.file} {self.pad_token} has "
                f"id {self.pad_token_id}"
            )
        if problems:
            raise TokenizerError(
                f"tokenizer and model do not belong together: {'; '.join(problems)}. Use the "
                "tokenizer file that came with the checkpoint"
            )

    def fingerprint(self) -> str:
        """32 hexadecimal digits that change with anything that may change the ids of a text."""
        settings = f"{self.kind} {self.do_lower_case} {self.strip_accents} ".encode()
        return hashlib.sha256(settings + self._data).hexdigest()[:32]

    @property
    def vocab_size(self) -> int:
        return len(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getstate__(self) -> dict[str, Any]:
        """A worker process gets the file's content and builds its own."""
        names = ("file", "do_lower_case", "strip_accents", "_data")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._build(self._data)

    def _build(self, data: bytes) -> None:
        self._data = data
        source = str(self.file)
        self.model = self.model_class(data, source, self.do_lower_case, self.strip_accents)
        self.tokens = self.model.tokens
        special = self.special_tokens
        self.pad_token, self.unk_token = special["pad"], special["unk"]
        self.cls_token, self.sep_token, self.mask_token = (
            special["cls"], special["sep"], special["mask"],
        )
        ids = [self.model.id_of[token] for token in special.values()]
        (self.pad_token_id, self.unk_token_id, self.cls_token_id, self.sep_token_id,
         self.mask_token_id) = ids
        self.special_ids = np.array(sorted(ids))
        self.ordinary_ids = np.setdiff1d(self.model.ordinary_ids, self.special_ids)
        self.starts_word = self.model.starts_word()
        self._special_in_text = re.compile("(" + "|".join(map(re.escape, special.values())) + ")")

    def _encode(self, texts: list[str], special_in_text: bool) -> tuple[list[list[int]], list]:
        return self.model.encode_batch(texts), []

    def _encode_with_offsets(
        self, texts: list[str], special_in_text: bool
    ) -> tuple[list[list[int]], list[Offsets]]:
        if special_in_text:
            rows = [self._encode_around_special(text) for text in texts]
        else:
            rows = self.model.encode_with_offsets(texts)
        return [ids for ids, _ in rows], [offsets for _, offsets in rows]

    def _encode_around_special(self, text: str) -> tuple[list[int], Offsets]:
        """Special tokens written in the text become themselves, for filling in a [MASK]."""
        ids: list[int] = []
        offsets: Offsets = []
        place = 0
        for part in self._special_in_text.split(text):
            if part in self.special_tokens.values():
                part_ids, part_offsets = [self.model.id_of[part]], [(0, len(part))]
            else:
                [(part_ids, part_offsets)] = self.model.encode_with_offsets([part])
                glued = place > 0 and part and not part[0].isspace()
                if glued and part_offsets and part_offsets[0] == (0, 0):
                    part_ids, part_offsets = part_ids[1:], part_offsets[1:]  # no space, no "▁"
            ids += part_ids
            offsets += [(place + start, place + end) for start, end in part_offsets]
            place += len(part)
        return ids, offsets


class SentencePieceTokenizer(AlbertTokenizer):
    """ALBERT's English tokenizer: `spiece.model`, published as `30k-clean.model`."""

    kind = SENTENCEPIECE
    hugging_face_name = "AlbertTokenizer"
    special_tokens = tokenization_sentencepiece.SPECIAL_TOKENS
    model_class = SentencePieceModel


class WordPieceTokenizer(AlbertTokenizer):
    """The Chinese tokenizer, which is BERT's: `vocab.txt`, also known as `vocab_chinese.txt`."""

    kind = WORDPIECE
    hugging_face_name = "BertTokenizer"
    special_tokens = tokenization_wordpiece.SPECIAL_TOKENS
    model_class = WordPieceModel


def _as_batch(texts: str | Sequence[str], name: str) -> list[str]:
    batch = [texts] if isinstance(texts, str) else list(texts)
    for row, text in enumerate(batch):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{row}] is {text!r}, expected a text (str)")
    return batch


TOKENIZERS: dict[str, type[AlbertTokenizer]] = {
    SENTENCEPIECE: SentencePieceTokenizer,
    WORDPIECE: WordPieceTokenizer,
}
