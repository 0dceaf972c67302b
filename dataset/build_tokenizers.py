"""Rebuild the two small tokenizers of the quick start from the training part of its text.

    python dataset/build_tasks.py --output_dir outputs/quickstart/data
    python dataset/build_tokenizers.py --data_dir outputs/quickstart/data

`tiny_en/spiece.model`: SentencePiece with the flags that ALBERT's official README gives, on
lower-cased text. `tiny_zh/vocab.txt`: one piece a character, the most frequent first, and
ASCII letters and digits with their "##" forms.
"""

from __future__ import annotations

import argparse
import json
import string
from collections import Counter
from pathlib import Path

import sentencepiece

HERE = Path(__file__).resolve().parent
ENGLISH_PIECES = 4_000
CHINESE_MIN_COUNT = 2  # a character seen once teaches nothing but its own embedding
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def build_english(corpus: Path, folder: Path) -> None:
    lines = corpus.read_text(encoding="utf-8").lower().split("\n")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "spiece.model").open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([line for line in lines if line]), model_writer=file,
            vocab_size=ENGLISH_PIECES, model_type="unigram", character_coverage=0.99995,
            pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols="[CLS],[SEP],[MASK]",
            user_defined_symbols='(,),",-,.,–,£,€', num_threads=1, minloglevel=2)
    write_settings(folder, "AlbertTokenizer")


def build_chinese(corpus: Path, folder: Path) -> None:
    counts = Counter(corpus.read_text(encoding="utf-8").replace("\n", ""))
    characters = [c for c, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
                  if n >= CHINESE_MIN_COUNT]
    latin = [c for c in string.digits + string.ascii_lowercase if c not in counts]
    pieces = [*SPECIAL, *characters, *latin, *(f"##{c}" for c in latin)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8", newline="\n")
    write_settings(folder, "BertTokenizer")


def write_settings(folder: Path, kind: str) -> None:
    settings = {"tokenizer_class": kind, "do_lower_case": True, "strip_accents": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n",
                                                  encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Rebuild the two small tokenizers of the quick start.")
    parser.add_argument("--data_dir", type=Path, required=True,
                        help="what build_tasks.py wrote: english/corpus.txt, chinese/corpus.txt")
    parser.add_argument("--output_dir", type=Path, default=HERE,
                        help="tiny_en/ and tiny_zh/ are written here "
                             "(default: %(default)s)")
    args = parser.parse_args()
    build_english(args.data_dir / "english" / "corpus.txt", args.output_dir / "tiny_en")
    build_chinese(args.data_dir / "chinese" / "corpus.txt", args.output_dir / "tiny_zh")


if __name__ == "__main__":
    main()
