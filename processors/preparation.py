"""A corpus -> shards: documents are read in one process and tokenised in several, in order."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from model.tokenization_albert import AlbertTokenizer
from processors.corpus import CorpusError, read_documents, sentences
from processors.shards import token_dtype, write_manifest, write_shard

logger = logging.getLogger(__name__)

BATCH_BYTES = 1 << 20  # of text that a worker gets at once
SAMPLE_CHARACTERS = 50_000_000  # of text that a tokenizer is trained on
Batch = list[list[str]]  # documents of lines


@dataclass(frozen=True)
class Preparation:
    """What is prepared, and how."""

    inputs: list[str]
    output_dir: Path
    document_separator: str = "blank_line"
    json_field: str | None = None
    split_sentences: str = "none"
    max_sentence_tokens: int = 256
    heldout_fraction: float = 0.01
    dedup: bool = False
    shard_tokens: int = 50_000_000
    num_workers: int = 1

    def documents(self) -> Iterator[tuple[list[str], int]]:
        for name in self.inputs:
            yield from read_documents(name, self.document_separator, self.json_field)

    def sample(self) -> Iterator[str]:
        """Sentences to train a tokenizer on: every k-th document of a corpus past the bound."""
        size = sum(os.path.getsize(name) for name in self.inputs)
        stride = max(1, -(-size // SAMPLE_CHARACTERS))
        for number, (lines, _) in enumerate(self.documents()):
            if number % stride == 0:
                yield from sentences(lines, self.split_sentences)


@dataclass
class Counts:
    """What a preparation read and left out."""

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    unknown: int = 0
    duplicates: int = 0
    cut_sentences: int = 0
    bytes: int = 0

    def table(self, held_out: int, seconds: float) -> str:
        rows = [("documents", f"{self.documents:,}"), ("of these held out", f"{held_out:,}"),
                ("sentences", f"{self.sentences:,}"), ("tokens", f"{self.tokens:,}"),
                ("unknown tokens", f"{self.unknown / max(1, self.tokens):.3%}"),
                ("duplicates left out", f"{self.duplicates:,}"),
                ("sentences cut", f"{self.cut_sentences:,}"),
                ("text", f"{self.bytes / 1e6:,.1f} MB"),
                ("rate", f"{self.bytes / 1e6 / max(seconds, 1e-9):,.1f} MB/s")]
        width, right = (max(len(row[i]) for row in rows) for i in (0, 1))
        return "\n".join(f"{name:<{width}}  {value:>{right}}" for name, value in rows)


@dataclass
class _Tokenised:
    """Documents of one batch: ids of their sentences, and a hash of each document."""

    documents: list[list[list[int]]] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    cut: int = 0


_worker: dict[str, Any] = {}  # a worker process's own tokenizer and settings


def _start_worker(tokenizer: AlbertTokenizer, plan: Preparation) -> None:
    _worker.update(tokenizer=tokenizer, plan=plan)


def _tokenise(batch: Batch) -> _Tokenised:
    tokenizer, plan = _worker["tokenizer"], _worker["plan"]
    split = [sentences(lines, plan.split_sentences) for lines in batch]
    ids = iter(tokenizer.encode_batch([s for document in split for s in document]))
    result = _Tokenised()
    limit = plan.max_sentence_tokens
    for document in split:
        rows = [row for row in (next(ids) for _ in document) if row]
        result.cut += sum(len(row) > limit for row in rows)
        rows = [row[at:at + limit] for row in rows for at in range(0, len(row), limit)]
        if rows:
            text = " ".join(" ".join(document).split()).lower()
            result.documents.append(rows)
            result.hashes.append(hashlib.blake2b(text.encode(), digest_size=16).digest())
    return result


def _batches(plan: Preparation) -> Iterator[tuple[Batch, int]]:
    batch: Batch = []
    size = 0
    for lines, read in plan.documents():
        batch.append(lines)
        size += read
        if size >= BATCH_BYTES:
            yield batch, size
            batch, size = [], 0
    if batch:
        yield batch, size


def prepare(plan: Preparation, tokenizer: AlbertTokenizer) -> str:
    """Write the shards of a corpus and its manifest; returns a table of what was done.

    Raises `CorpusError`; without a manifest the folder does not count as shards.
    """
    plan.output_dir.mkdir(parents=True, exist_ok=True)
    (plan.output_dir / "manifest.json").unlink(missing_ok=True)
    counts, seen = Counts(), set()
    writers = {name: _Writer(plan, name, tokenizer) for name in ("train", "heldout")}
    total = sum(os.path.getsize(n) for n in plan.inputs if Path(n).is_file()) or None
    packed = any(name.endswith((".gz", ".zst")) for name in plan.inputs)
    with tqdm(total=None if packed else total, unit="B", unit_scale=True, desc="preparing") as bar:
        for result, size in _in_workers(plan, tokenizer):
            counts.bytes += size
            counts.cut_sentences += result.cut
            for document, digest in zip(result.documents, result.hashes, strict=True):
                if plan.dedup:
                    if digest in seen:
                        counts.duplicates += 1
                        continue
                    seen.add(digest)
                counts.documents += 1
                counts.sentences += len(document)
                counts.tokens += sum(map(len, document))
                counts.unknown += sum(row.count(tokenizer.unk_token_id) for row in document)
                share = int.from_bytes(digest[:8], "big") / 2**64
                writers["heldout" if share < plan.heldout_fraction else "train"].add(document)
            bar.update(size)
        seconds = bar.format_dict["elapsed"]
    splits = {name: writer.close() for name, writer in writers.items()}
    _judge(plan, counts, splits)
    tokenizer.save_pretrained(plan.output_dir)
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in asdict(plan).items()
                if k != "num_workers"}
    write_manifest(plan.output_dir, {
        "vocab_size": len(tokenizer), "tokenizer_fingerprint": tokenizer.fingerprint(),
        "words": False, "settings": settings, "counts": asdict(counts), "splits": splits})
    held_out = sum(entry["documents"] for entry in splits["heldout"])
    return counts.table(held_out, seconds)


def _judge(plan: Preparation, counts: Counts, splits: dict[str, list]) -> None:
    if not splits["train"]:
        raise CorpusError(f"{', '.join(plan.inputs[:5])}: no text to train on ({counts.documents} "
                          "documents in all), expected at least one document with one sentence")
    if not splits["heldout"] and plan.heldout_fraction:
        logger.warning("%d documents are too few to hold some out: no evaluation while training",
                       counts.documents)
    if counts.documents == 1 and plan.document_separator == "blank_line" and counts.sentences > 100:
        logger.warning("no blank line in the whole corpus, so it is one giant document: sentence "
                       "pairs will cross topics; put blank lines between documents, or give "
                       "--document_separator line")


def _in_workers(plan: Preparation, tokenizer: AlbertTokenizer) -> Iterable[tuple[_Tokenised, int]]:
    """Every batch tokenised, in the order of the text, with its size in bytes."""
    if plan.num_workers == 1:
        _start_worker(tokenizer, plan)
        for batch, size in _batches(plan):
            yield _tokenise(batch), size
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(plan.num_workers, _start_worker, (tokenizer, plan)) as pool:
        waiting: list[tuple[Any, int]] = []
        for batch, size in _batches(plan):  # a few batches ahead, so that memory stays flat
            waiting.append((pool.apply_async(_tokenise, (batch,)), size))
            if len(waiting) > 2 * plan.num_workers:
                result, done = waiting.pop(0)
                yield result.get(), done
        for result, done in waiting:
            yield result.get(), done


class _Writer:
    """Shards of one split, each of about `shard_tokens` tokens."""

    def __init__(self, plan: Preparation, split: str, tokenizer: AlbertTokenizer) -> None:
        self.plan, self.split, self.dtype = plan, split, token_dtype(len(tokenizer))
        self.entries: list[dict[str, Any]] = []
        self.documents: list[list[list[int]]] = []
        self.tokens = 0

    def add(self, document: list[list[int]]) -> None:
        self.documents.append(document)
        self.tokens += sum(map(len, document))
        if self.tokens >= self.plan.shard_tokens:
            self.flush()

    def flush(self) -> None:
        if self.documents:
            name = f"{self.split}-{len(self.entries):05}"
            self.entries.append(write_shard(self.plan.output_dir, name, self.documents, self.dtype))
        self.documents, self.tokens = [], 0

    def close(self) -> list[dict[str, Any]]:
        self.flush()
        return self.entries
