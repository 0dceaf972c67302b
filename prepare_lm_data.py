"""Raw text -> tokenised shards for run_pretraining.py.

    python prepare_lm_data.py --input 'corpus/*.txt' --split_sentences en \\
        --train_tokenizer sentencepiece --vocab_size 30000 --output_dir shards

Input: text files (.gz and .zst, too), JSON lines with --json_field, globs, or - for standard input.
The shards are the same whatever the number of workers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from model.tokenization_albert import AlbertTokenizer, TokenizerError
from processors.corpus import SEPARATORS, SPLITTERS, CorpusError, find_inputs
from processors.preparation import Preparation, prepare
from processors.segmentation import SEGMENTERS, require_jieba
from processors.shards import MANIFEST, ShardError
from processors.tokenizer_training import TRAINERS
from tools.arguments import flag, parse
from tools.logging import start_logging


@dataclass
class PreparationSettings:
    """All flags of this front door."""

    input: list[str] = flag("text files, globs, or - for standard input")
    output_dir: Path = flag("folder for the shards and the tokenizer")
    document_separator: str = flag("what stands between documents", "blank_line",
                                   choices=SEPARATORS)
    json_field: str | None = flag("the input is JSON lines; the field that holds the text", None)
    split_sentences: str = flag("how a line is split into sentences", "none",
                                choices=tuple(SPLITTERS))
    max_sentence_tokens: int = flag("longer sentences are cut into pieces", 256)
    heldout_fraction: float = flag("share of documents that is held out for evaluation", 0.01)
    dedup: bool = flag("leave out documents that came before", False)
    tokenizer_dir: Path | None = flag("folder of the tokenizer", None, group="tokenizer")
    spm_model_file: Path | None = flag("its SentencePiece model", None, group="tokenizer")
    vocab_file: Path | None = flag("its WordPiece vocabulary", None, group="tokenizer")
    keep_case: bool = flag("do not lower-case", False, group="tokenizer")
    train_tokenizer: str | None = flag("train one on the input first", None,
                                       choices=tuple(TRAINERS), group="tokenizer")
    vocab_size: int = flag("of the tokenizer to train", 30000, group="tokenizer")
    whole_words: str = flag("zh: mark Chinese words by jieba, so that they are masked whole",
                            "none", choices=SEGMENTERS)
    num_workers: int = flag("processes", 2)
    shard_tokens: int = flag("tokens of a shard", 50_000_000)
    overwrite_output_dir: bool = flag("replace the shards of an earlier run", False)

    def problems(self) -> list[str]:
        found = []
        given = [self.tokenizer_dir or self.spm_model_file or self.vocab_file,
                 self.train_tokenizer]
        if sum(one is not None for one in given) != 1:
            found.append("give a tokenizer (--tokenizer_dir, --spm_model_file or --vocab_file) or "
                         "--train_tokenizer")
        if not 0 <= self.heldout_fraction < 1:
            found.append(f"--heldout_fraction {self.heldout_fraction}: expected 0 <= share < 1")
        for name in ("num_workers", "shard_tokens", "vocab_size", "max_sentence_tokens"):
            if getattr(self, name) < 1:
                found.append(f"--{name} {getattr(self, name)}: expected at least 1")
        if self.train_tokenizer and "-" in (self.input or []):
            found.append("--train_tokenizer reads the input twice, which standard input does not "
                         "allow: give files")
        if self.output_dir and (self.output_dir / MANIFEST).exists():
            if not self.overwrite_output_dir:
                found.append(f"--output_dir {self.output_dir} holds shards: give another folder, "
                             "or --overwrite_output_dir")
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 after one message that says what is wrong."""
    settings = parse(PreparationSettings, __doc__, arguments)
    start_logging()
    try:
        inputs = find_inputs(settings.input)
        plan = Preparation(
            inputs, settings.output_dir, settings.document_separator, settings.json_field,
            settings.split_sentences, settings.max_sentence_tokens, settings.heldout_fraction,
            settings.dedup, settings.whole_words, settings.shard_tokens, settings.num_workers)
        if settings.whole_words != "none":
            require_jieba()
        if settings.train_tokenizer:
            tokenizer = TRAINERS[settings.train_tokenizer](
                plan.sample(), settings.vocab_size, not settings.keep_case)
        else:
            tokenizer = AlbertTokenizer.from_pretrained(
                settings.tokenizer_dir, False if settings.keep_case else None,
                vocab_file=settings.vocab_file, spm_model_file=settings.spm_model_file)
        print(prepare(plan, tokenizer))
    except (CorpusError, ShardError, TokenizerError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
