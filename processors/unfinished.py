"""Shards in the making: documents go to their split, full shards to disk, and a kill loses little.

With every finished shard of the training split the state of the work is written beside it, in one
file that replaces the last: what was counted, how many documents were read, the held-out documents
that are not on disk yet, and the hashes of all documents if duplicates are left out.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from processors.shards import PARTS, Documents, shard_path, write_shard

if TYPE_CHECKING:
    from processors.preparation import Preparation, _Tokenised

logger = logging.getLogger(__name__)

STATE = ".unfinished.npz"
SPLITS = ("train", "heldout")


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

    def table(self, held_out: int, seconds: float, read: int) -> str:
        """For people; `read` bytes took `seconds`."""
        rows = [("documents", f"{self.documents:,}"), ("of these held out", f"{held_out:,}"),
                ("sentences", f"{self.sentences:,}"), ("tokens", f"{self.tokens:,}"),
                ("unknown tokens", f"{self.unknown / max(1, self.tokens):.3%}"),
                ("duplicates left out", f"{self.duplicates:,}"),
                ("sentences cut", f"{self.cut_sentences:,}"),
                ("text", f"{self.bytes / 1e6:,.1f} MB"),
                ("rate", f"{read / 1e6 / max(seconds, 1e-9):,.1f} MB/s")]
        width, right = (max(len(row[i]) for row in rows) for i in (0, 1))
        return "\n".join(f"{name:<{width}}  {value:>{right}}" for name, value in rows)


class Unfinished:
    """The work of one preparation. Make it with `open`, which goes on where one was killed."""

    def __init__(self, plan: Preparation, key: str) -> None:
        self.plan, self.key = plan, key
        self.counts = Counts()
        self.documents_read = 0
        self.seen: set[bytes] = set()
        self.entries: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
        self.waiting: dict[str, list[Documents]] = {split: [] for split in SPLITS}
        self.tokens = dict.fromkeys(SPLITS, 0)  # in `waiting`

    @classmethod
    def open(cls, plan: Preparation, settings: Mapping[str, Any]) -> Unfinished:
        """New work, or that of a killed preparation of the same text with the same settings."""
        files = [[os.path.getsize(n), os.stat(n).st_mtime_ns] for n in plan.inputs
                 if Path(n).is_file()]
        key = hashlib.sha256(json.dumps([dict(settings), files], sort_keys=True).encode()
                             ).hexdigest()
        work = cls(plan, key)
        path = plan.output_dir / STATE
        if path.exists():
            with np.load(path, allow_pickle=False) as saved:
                state = json.loads(str(saved["state"]))
                if state["key"] == key:
                    work._load(state, saved)
                    logger.info("going on behind %s documents that an earlier start finished",
                                f"{work.documents_read:,}")
                else:
                    logger.warning("%s is of other text or settings: starting anew", path)
        return work

    def add(self, result: _Tokenised, unk_id: int) -> None:
        """Take in the documents of one batch."""
        text, sizes = result.text, result.text.document_tokens()
        held_out = np.zeros(len(sizes), bool)
        keep = text.documents > 0
        for i, digest in enumerate(result.hashes):
            held_out[i] = int.from_bytes(digest[:8], "big") / 2**64 < self.plan.heldout_fraction
            if self.plan.dedup and keep[i]:
                if digest in self.seen:
                    keep[i] = False
                    self.counts.duplicates += 1
                self.seen.add(digest)
        kept = text.take(keep)
        counts = self.counts
        counts.documents += len(kept.documents)
        counts.sentences += len(kept.sentences)
        counts.tokens += len(kept.tokens)
        counts.unknown += int((kept.tokens == unk_id).sum())
        counts.bytes += result.size
        counts.cut_sentences += result.cut
        self.documents_read += len(sizes)
        self._put("heldout", text.take(keep & held_out))
        if self._put("train", text.take(keep & ~held_out)):
            self._save()

    def _put(self, split: str, text: Documents) -> bool:
        """Add documents to a split; a shard ends with the batch that fills it."""
        if not len(text.documents):
            return False
        self.waiting[split].append(text)
        self.tokens[split] += len(text.tokens)
        return self.tokens[split] >= self.plan.shard_tokens and self._flush(split)

    def _flush(self, split: str) -> bool:
        if self.waiting[split]:
            name = f"{split}-{len(self.entries[split]):05}"
            self.entries[split].append(write_shard(self.plan.output_dir, name,
                                                   Documents.join(self.waiting[split])))
        self.waiting[split], self.tokens[split] = [], 0
        return True

    def close(self) -> dict[str, list[dict[str, Any]]]:
        """Write what is left; the manifest entries of every split."""
        for split in SPLITS:
            self._flush(split)
        return self.entries

    def forget(self) -> None:
        """The manifest is written: nothing is left to go on with."""
        (self.plan.output_dir / STATE).unlink(missing_ok=True)

    # ---- going on after a kill -------------------------------------------------------------------

    def _save(self) -> None:
        """Right behind a training shard, so that only held-out documents wait."""
        state = {"key": self.key, "counts": asdict(self.counts), "entries": self.entries,
                 "documents_read": self.documents_read}
        arrays = {"seen": np.frombuffer(b"".join(sorted(self.seen)), np.uint8)}
        if self.waiting["heldout"]:
            text = Documents.join(self.waiting["heldout"])
            arrays |= {name: getattr(text, name) for name in PARTS}
            if text.words is not None:
                arrays["words"] = text.words
        temporary = self.plan.output_dir / f"{STATE}.tmp"
        with temporary.open("wb") as file:
            np.savez(file, state=np.array(json.dumps(state)), **arrays)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.plan.output_dir / STATE)

    def _load(self, state: Mapping[str, Any], saved: Mapping[str, np.ndarray]) -> None:
        missing = [shard_path(self.plan.output_dir, entry["name"], part)
                   for entries in state["entries"].values() for entry in entries
                   for part in PARTS if not shard_path(self.plan.output_dir, entry["name"],
                                                       part).exists()]
        if missing:
            logger.warning("%s is gone: starting anew", missing[0])
            return
        self.counts = Counts(**state["counts"])
        self.entries, self.documents_read = state["entries"], state["documents_read"]
        hashes = saved["seen"].tobytes()
        self.seen = {hashes[at:at + 16] for at in range(0, len(hashes), 16)}
        if "tokens" in saved:
            text = Documents(*(saved[name] for name in PARTS),
                             saved["words"] if "words" in saved else None)
            self.waiting["heldout"], self.tokens["heldout"] = [text], len(text.tokens)
