"""A corpus -> shards: documents are read in one process and tokenised in several, in order."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from model.tokenization_albert import AlbertTokenizer
from processors.corpus import CorpusError, read_documents, sentences
from processors.segmentation import segmented
from processors.shards import Documents, token_dtype, write_manifest
from processors.unfinished import Counts, Unfinished

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
    whole_words: str = "none"
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
class _Tokenised:
    """Documents of one batch, in order, and a hash of each."""

    text: Documents
    hashes: list[bytes]
    cut: int
    size: int = 0  # bytes of the batch


_worker: dict[str, Any] = {}  # a worker process's own tokenizer and settings


def _start_worker(tokenizer: AlbertTokenizer, plan: Preparation) -> None:
    _worker.update(tokenizer=tokenizer, plan=plan)


def _tokenise(batch: Batch) -> _Tokenised:
    tokenizer, plan = _worker["tokenizer"], _worker["plan"]
    split = [sentences(lines, plan.split_sentences) for lines in batch]
    flat = [sentence for document in split for sentence in document]
    if plan.whole_words == "none":
        ids, begins = tokenizer.encode_batch(flat), None
    else:
        ids, begins = segmented(tokenizer, flat)
    limit = plan.max_sentence_tokens
    lengths, counts, at, cut = [], [], 0, 0
    for document in split:
        before = len(lengths)
        for row in ids[at:at + len(document)]:
            size = len(row)
            cut += size > limit
            while size > limit:
                lengths.append(limit)
                size -= limit
            if size:
                lengths.append(size)
        at += len(document)
        counts.append(len(lengths) - before)
    dtype = token_dtype(len(tokenizer))
    text = Documents(np.fromiter(chain.from_iterable(ids), dtype), np.array(lengths, np.int64),
                     np.array(counts, np.int64),
                     None if begins is None else np.fromiter(chain.from_iterable(begins), np.bool_))
    return _Tokenised(text, [_fingerprint(document) for document in split], cut)


def _fingerprint(document: list[str]) -> bytes:
    """Decides whether a document is held out, and whether it came before."""
    text = " ".join(" ".join(document).split()).lower()
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _batches(plan: Preparation, done: int) -> Iterator[tuple[Batch, int]]:
    """Batches of documents with their bytes, without the first `done` documents."""
    batch: Batch = []
    size = 0
    for lines, read in islice(plan.documents(), done, None):
        batch.append(lines)
        size += read
        if size >= BATCH_BYTES:
            yield batch, size
            batch, size = [], 0
    if batch:
        yield batch, size


def prepare(plan: Preparation, tokenizer: AlbertTokenizer) -> str:
    """Write the shards of a corpus and its manifest; returns a table of what was done.

    A preparation that was killed goes on behind the last shard that it finished. Raises
    `CorpusError`; without a manifest the folder does not count as shards.
    """
    plan.output_dir.mkdir(parents=True, exist_ok=True)
    (plan.output_dir / "manifest.json").unlink(missing_ok=True)
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in asdict(plan).items()
                if k != "num_workers"}
    work = Unfinished.open(plan, {**settings, "tokenizer": tokenizer.fingerprint()})
    total = sum(os.path.getsize(n) for n in plan.inputs if Path(n).is_file()) or None
    packed = any(name.endswith((".gz", ".zst")) for name in plan.inputs)
    with tqdm(total=None if packed else total, unit="B", unit_scale=True, desc="preparing",
              initial=work.counts.bytes) as bar:
        for result in _in_workers(plan, tokenizer, work.documents_read):
            work.add(result, tokenizer.unk_token_id)
            bar.update(result.size)
        seconds = bar.format_dict["elapsed"]
        read = work.counts.bytes - bar.initial
    splits = work.close()
    _judge(plan, work.counts, splits)
    tokenizer.save_pretrained(plan.output_dir)
    write_manifest(plan.output_dir, {
        "vocab_size": len(tokenizer), "tokenizer_fingerprint": tokenizer.fingerprint(),
        "words": plan.whole_words != "none", "settings": settings, "counts": asdict(work.counts),
        "splits": splits})
    work.forget()
    held_out = sum(entry["documents"] for entry in splits["heldout"])
    return work.counts.table(held_out, seconds, read)


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


def _in_workers(plan: Preparation, tokenizer: AlbertTokenizer, done: int) -> Iterator[_Tokenised]:
    """Every batch behind the first `done` documents, tokenised, in the order of the text."""
    if plan.num_workers == 1:
        _start_worker(tokenizer, plan)
        for batch, size in _batches(plan, done):
            yield replace(_tokenise(batch), size=size)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(plan.num_workers, _start_worker, (tokenizer, plan)) as pool:
        waiting: deque[tuple[Any, int]] = deque()
        for batch, size in _batches(plan, done):  # a few batches ahead: memory stays flat
            waiting.append((pool.apply_async(_tokenise, (batch,)), size))
            if len(waiting) > 2 * plan.num_workers:
                result, size = waiting.popleft()
                yield replace(result.get(), size=size)
        for result, size in waiting:
            yield replace(result.get(), size=size)
