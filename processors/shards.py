"""Tokenised text on disk: shards of token ids with their sentence and document offsets.

    folder/manifest.json                  counts, settings, tokenizer fingerprint; written last
    folder/train-00000.tokens.npy         (tokens,) uint16, or uint32 for larger vocabularies
    folder/train-00000.sentences.npy      (sentences + 1,) int64: where each begins, in tokens
    folder/train-00000.documents.npy      (documents + 1,) int64: where each begins, in sentences
    folder/train-00000.words.npy          (tokens,) bool, optional: does the token begin a word

No masks and no pairs are stored: they are made as they are read. Everything is memory-mapped, so
memory stays flat whatever the size of the corpus.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1
MANIFEST = "manifest.json"
PARTS = ("tokens", "sentences", "documents")


class ShardError(ValueError):
    """Shards that are damaged, unfinished or of another tokenizer; the message names the file."""


def token_dtype(vocab_size: int) -> np.dtype:
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)


def shard_path(folder: Path, name: str, part: str) -> Path:
    return folder / f"{name}.{part}.npy"


@dataclass
class Documents:
    """Tokenised documents, end to end in arrays.

    tokens (N,) of all; sentences: tokens of each sentence; documents: sentences of each document,
    0 for one without a token; words (N,): whether a token begins a word, where the vocabulary
    alone does not tell.
    """

    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    words: np.ndarray | None = None

    def take(self, wanted: np.ndarray) -> Documents:
        """The documents for which `wanted` (D,) is true."""
        sentences = np.repeat(wanted, self.documents)
        tokens = np.repeat(sentences, self.sentences)
        return Documents(self.tokens[tokens], self.sentences[sentences], self.documents[wanted],
                         None if self.words is None else self.words[tokens])

    def document_tokens(self) -> np.ndarray:
        """Tokens of each document (D,)."""
        ends = np.concatenate([[0], np.cumsum(self.sentences)])
        return np.diff(ends[np.concatenate([[0], np.cumsum(self.documents)])])

    @classmethod
    def join(cls, parts: Sequence[Documents]) -> Documents:
        words = None if parts[0].words is None else np.concatenate([p.words for p in parts])
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in PARTS), words)


def write_shard(folder: Path, name: str, text: Documents) -> dict[str, Any]:
    """Write documents as one shard; returns its manifest entry."""
    arrays = {"tokens": text.tokens,
              "sentences": np.concatenate([[0], np.cumsum(text.sentences, dtype=np.int64)]),
              "documents": np.concatenate([[0], np.cumsum(text.documents, dtype=np.int64)])}
    if text.words is not None:
        arrays["words"] = text.words
    entry: dict[str, Any] = {"name": name, "tokens": len(text.tokens),
                             "sentences": len(text.sentences), "documents": len(text.documents)}
    digest = hashlib.sha256()
    for part, array in arrays.items():
        path = shard_path(folder, name, part)
        temporary = path.with_name(f".{path.name}.tmp")
        with temporary.open("wb") as file:
            np.save(file, array)
        temporary.replace(path)
        digest.update(array.tobytes())
    return entry | {"sha256": digest.hexdigest()[:32]}


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest, the mark of finished shards, with a fingerprint of the data."""
    shards = {split: [s["sha256"] for s in entries] for split, entries in
              manifest["splits"].items()}
    fingerprint = hashlib.sha256(json.dumps(shards, sort_keys=True).encode()).hexdigest()[:32]
    text = json.dumps({"format": FORMAT, "fingerprint": fingerprint, **manifest}, indent=2,
                      ensure_ascii=False)
    temporary = folder / f".{MANIFEST}.tmp"
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(folder / MANIFEST)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of shards. Raises `ShardError`."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ShardError(f"{folder}: no {MANIFEST}, so no finished shards; make them with "
                         "prepare_lm_data.py --output_dir " + str(folder))
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ShardError(f"{path}: damaged ({error}); make the shards again") from None
    if manifest.get("format") != FORMAT:
        raise ShardError(f"{path}: format {manifest.get('format')}, expected {FORMAT}; make the "
                         "shards again")
    return manifest


@dataclass
class _Shard:
    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    words: np.ndarray | None


class Corpus:
    """The shards of one split, opened when first read (so also in each loader worker).

    Sentences are numbered through all shards.
    """

    def __init__(self, folder: str | Path, split: str = "train",
                 tokenizer_fingerprint: str | None = None) -> None:
        """Raises `ShardError` where sizes do not agree or another tokenizer made the shards."""
        self.folder, self.split = Path(folder), split
        self.manifest = read_manifest(self.folder)
        self.fingerprint: str = self.manifest["fingerprint"]
        made_by = self.manifest["tokenizer_fingerprint"]
        if tokenizer_fingerprint not in (None, made_by):
            raise ShardError(f"{self.folder}: the shards were made with another tokenizer (or "
                             f"other settings of it): fingerprint {made_by}, this run's tokenizer "
                             f"has {tokenizer_fingerprint}; use the tokenizer files in "
                             f"{self.folder}, or make the shards again")
        self.entries = self.manifest["splits"].get(split, [])
        if not self.entries:
            raise ShardError(f"{self.folder}: no {split} split; there are: "
                             f"{', '.join(k for k, v in self.manifest['splits'].items() if v)}")
        self.first_sentence = np.cumsum([0] + [e["sentences"] for e in self.entries])
        self._shards: list[_Shard] | None = None
        self.shards  # sizes are checked now, not at hour three  # noqa: B018

    @property
    def shards(self) -> list[_Shard]:
        if self._shards is None:
            self._shards = [self._open(entry) for entry in self.entries]
        return self._shards

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_shards": None}

    def _open(self, entry: dict[str, Any]) -> _Shard:
        arrays = {}
        sizes = {"tokens": entry["tokens"], "sentences": entry["sentences"] + 1,
                 "documents": entry["documents"] + 1, "words": entry["tokens"]}
        optional = ("words",) if self.manifest.get("words") else ()
        for part in (*PARTS, *optional):
            path = shard_path(self.folder, entry["name"], part)
            try:
                array = np.load(path, mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise ShardError(f"{path}: cannot be read ({error}); make the shards again"
                                 ) from None
            if array.shape != (sizes[part],):
                raise ShardError(f"{path}: {array.shape} entries, the manifest says {sizes[part]}; "
                                 "make the shards again")
            arrays[part] = array
        if arrays["sentences"][-1] != entry["tokens"]:
            path = shard_path(self.folder, entry["name"], "sentences")
            raise ShardError(f"{path}: ends at token {arrays['sentences'][-1]} of "
                             f"{entry['tokens']}; make the shards again")
        return _Shard(arrays["tokens"], arrays["sentences"], arrays["documents"],
                      arrays.get("words"))

    def total(self, what: str) -> int:
        """Number of tokens, sentences or documents."""
        return sum(entry[what] for entry in self.entries)
