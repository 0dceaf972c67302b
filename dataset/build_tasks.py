"""Make the two tasks of the quick start from the bundled text.

    python dataset/build_tasks.py --output_dir outputs/quickstart/data

`english/`: which of Jane Austen's six novels a passage comes from. TSV with a header, "sentence",
"label", as GLUE has it. Characters' names stay in the text, as they would in real documents.

`chinese/`: two couplets of a poem, its first and its last: are they in the poem's order (1) or
exchanged (0)? LCQMC's files: "text_a", "text_b", "label". Both texts are of one length and come
from one poem, so that neither length nor topic gives the answer away.

Whole chapters and whole poems go to train, dev or test, none to two of them. `corpus.txt` is the
text of the training part alone, one sentence a line with a blank line between documents, so that a
model may be pretrained on it without having seen a line of dev or test.

The same text always gives the same files, byte for byte.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
PASSAGE_WORDS = 30  # a passage is whole sentences, at least this many words
SEED = 2019

Document = list[str]  # sentences, or couplets
Row = tuple[str, ...]
SPLITS = ("train", "dev", "test")


def read_documents(path: Path) -> list[Document]:
    """Documents of a file with one sentence a line and a blank line between documents."""
    blocks = path.read_text(encoding="utf-8").strip("\n").split("\n\n")
    return [block.split("\n") for block in blocks]


def split_of(index: int, every: int) -> str:
    """Of `every` neighbouring documents one is for dev and one for test, not next to each other."""
    return {1: "dev", 1 + every // 2: "test"}.get(index % every, "train")


def passages(document: Document) -> list[str]:
    """Neighbouring sentences, joined; a rest too short for a passage is left out."""
    found, open_passage, words = [], [], 0
    for sentence in document:
        open_passage.append(sentence)
        words += len(sentence.split())
        if words >= PASSAGE_WORDS:
            found.append(" ".join(open_passage))
            open_passage, words = [], 0
    return found


def english(folder: Path) -> tuple[dict[str, list[Row]], list[Document]]:
    """Rows (sentence, label) of each split, and the documents of the training part."""
    rows: dict[str, list[Row]] = {split: [] for split in SPLITS}
    corpus = []
    for path in sorted(folder.glob("*.txt")):
        for index, document in enumerate(read_documents(path)):
            split = split_of(index, 8)
            rows[split].extend((passage, path.stem) for passage in passages(document))
            if split == "train":
                corpus.append(document)
    return rows, corpus


def chinese(folder: Path) -> tuple[dict[str, list[Row]], list[Document]]:
    """Rows (text_a, text_b, label) of each split, and the documents of the training part."""
    rows: dict[str, list[Row]] = {split: [] for split in SPLITS}
    corpus = []
    poems = [poem for path in sorted(folder.glob("*.txt")) for poem in read_documents(path)]
    coin = random.Random(SEED)
    for index, poem in enumerate(poems):
        split = split_of(index, 10)
        first, last = poem[0], poem[-1]
        in_order = coin.random() < 0.5
        rows[split].append((first, last, "1") if in_order else (last, first, "0"))
        if split == "train":
            corpus.append(poem)
    return rows, corpus


def write(folder: Path, header: Row, rows: dict[str, list[Row]],
          corpus: Sequence[Document]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, lines in rows.items():
        random.Random(SEED).shuffle(lines)
        text = "".join("\t".join(cells) + "\n" for cells in [header, *lines])
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8", newline="\n")
    text = "\n\n".join("\n".join(document) for document in corpus) + "\n"
    (folder / "corpus.txt").write_text(text, encoding="utf-8", newline="\n")
    counts = ", ".join(f"{len(rows[split]):,} {split}" for split in SPLITS)
    print(f"{folder}: {counts}; corpus.txt {len(text.encode()) / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Make the two tasks of the quick start from the bundled text.")
    parser.add_argument("--output_dir", type=Path, required=True,
                        help="english/ and chinese/ are written here")
    args = parser.parse_args()
    write(args.output_dir / "english", ("sentence", "label"), *english(HERE / "english"))
    write(args.output_dir / "chinese", ("text_a", "text_b", "label"), *chinese(HERE / "chinese"))


if __name__ == "__main__":
    main()
