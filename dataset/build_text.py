"""Rebuild the bundled text from the two packages it was taken from (see NOTICE).

Nobody needs to run this: its output lies in `english/` and `chinese/`. It is here so that every
character of the bundled text can be accounted for.

    apt-get download r-cran-janeaustenr && dpkg -x r-cran-janeaustenr_*.deb austen
    npm pack chinese-poetry && tar xzf chinese-poetry-*.tgz
    python dataset/build_text.py --chinese_poetry package \\
        --janeaustenr austen/usr/lib/R/site-library/janeaustenr

Layout of what it writes: one sentence a line, a blank line between documents. A document is a
chapter of a novel, or a poem.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).resolve().parent
NOVEL_CHARACTERS = 340_000  # of each novel, so that the six classes are of about one size
POETS, POEMS = 60, 9_000

NOVELS = {  # the first line of a text -> the name of its file and class
    "EMMA": "emma",
    "MANSFIELD PARK": "mansfield_park",
    "NORTHANGER ABBEY": "northanger_abbey",
    "Persuasion": "persuasion",
    "PRIDE AND PREJUDICE": "pride_and_prejudice",
    "SENSE AND SENSIBILITY": "sense_and_sensibility",
}
HEADING = re.compile(r"(?:volume|chapter) (?:[ivxl]+|\d+)", re.IGNORECASE)
AFTER_THE_END = ("FINIS", "Finis", "THE END", "A NOTE ON THE TEXT")
NOT_AUSTENS = re.compile(r"[\[*]")  # editors' notes and rows of stars begin like this

# Where a sentence may end: a full stop with its closing marks, before a capital or an opening mark.
SENTENCE_END = re.compile(r"""[.!?]+["')]*\s+(?=["'(]*[A-Z])""")
ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Dr|St|Esq|Capt|Col|Sir|No|Vol)|\b[A-Z]|&c)\.\s*$")

Item = TypeVar("Item")


def every_so_often(items: Sequence[Item], share: float) -> list[Item]:
    """A share of a sequence, evenly spread over it, in its order."""
    share = min(share, 1.0)
    return [item for i, item in enumerate(items) if int((i + 1) * share) > int(i * share)]


# ---- English -----------------------------------------------------------------------------------


def read_lazyload_database(path: Path) -> list[list[str]]:
    """The character vectors of an R package's `data/Rdata.rdb`.

    The file is a row of records: the size of the object (big-endian), then the object, serialised
    and compressed by zlib. R's manual "R Internals", section 1.8, describes the serialisation.
    """
    data = path.read_bytes()
    vectors = []
    while data:
        (size,) = struct.unpack_from(">I", data)
        stream = zlib.decompressobj()
        record = stream.decompress(data[4:])
        if len(record) != size:
            raise ValueError(f"{path}: a record has {len(record)} bytes, expected {size}")
        vectors.append(_character_vector(record, path))
        data = stream.unused_data
    return vectors


def _character_vector(record: bytes, path: Path) -> list[str]:
    version = struct.unpack_from(">i", record, 2)[0]
    place = 14  # "X\n" and three versions
    if version == 3:
        place += 4 + struct.unpack_from(">i", record, place)[0]  # the name of an encoding
    flags, count = struct.unpack_from(">2i", record, place)
    if record[:2] != b"X\n" or flags & 0xFF != 16:
        raise ValueError(f"{path}: a record is no character vector in XDR format")
    place += 8
    lines = []
    for _ in range(count):
        size = struct.unpack_from(">i", record, place + 4)[0]
        place += 8
        lines.append(record[place:place + size].decode("utf-8"))
        place += size
    return lines


def chapters(lines: Sequence[str]) -> list[list[str]]:
    """The chapters of a novel, each a list of sentences."""
    found: list[list[str]] = []
    paragraph: list[str] = []
    for line in [*lines, ""]:
        line = line.strip()
        if line and not HEADING.fullmatch(line):
            if line in AFTER_THE_END:
                break
            paragraph.append(line)
            continue
        if paragraph and found and not NOT_AUSTENS.match(paragraph[0]):
            found[-1].extend(sentences(" ".join(paragraph)))
        paragraph = []
        if line.lower().startswith("chapter"):
            found.append([])
    return [chapter for chapter in found if chapter]


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph. Underscores, which stand for italics, are dropped."""
    text = re.sub(r"\s+", " ", paragraph.replace("_", "")).strip()
    found, start = [], 0
    for match in SENTENCE_END.finditer(text):
        if not ABBREVIATION.search(text[start:match.end()]):
            found.append(text[start:match.end()].rstrip())
            start = match.end()
    return [*found, text[start:]] if text[start:] else found


def write_english(package: Path, folder: Path) -> None:
    for lines in read_lazyload_database(package / "data" / "Rdata.rdb"):
        found = chapters(lines)
        size = sum(len(sentence) for chapter in found for sentence in chapter)
        kept = every_so_often(found, NOVEL_CHARACTERS / size)
        write_documents(folder / f"{NOVELS[lines[0]]}.txt", kept)


# ---- Chinese -----------------------------------------------------------------------------------


def regulated_verse(package: Path) -> list[tuple[str, list[str]]]:
    """(poet, four couplets) of each eight-line poem of the Tang in lines of five or seven.

    A couplet is one entry of the collection, "秦川雄帝宅，函谷壯皇居。". Of poems that share one,
    since the collection gives some under two poets, the first is kept.
    """
    couplet = re.compile("([一-鿿]{5}，[一-鿿]{5}。|[一-鿿]{7}，[一-鿿]{7}。)")
    files = sorted((package / "dist" / "quantangshi").glob("poet.tang.*.json"),
                   key=lambda path: int(path.name.split(".")[2]))
    found, seen = [], set()
    for path in files:
        for poem in json.loads(path.read_text(encoding="utf-8")):
            lines = poem["paragraphs"]
            regular = (len(lines) == 4 and len({len(line) for line in lines}) == 1
                       and all(couplet.fullmatch(line) for line in lines))
            if regular and seen.isdisjoint(lines):
                seen.update(lines)
                found.append((poem["author"], lines))
    return found


def write_chinese(package: Path, folder: Path) -> None:
    poems = regulated_verse(package)
    most = {poet for poet, _ in Counter(poet for poet, _ in poems).most_common(POETS)}
    poems = [lines for poet, lines in poems if poet in most]
    write_documents(folder / "tang_regulated_verse.txt", every_so_often(poems, POEMS / len(poems)))


# ---- both --------------------------------------------------------------------------------------


def write_documents(path: Path, documents: Sequence[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join("\n".join(document) for document in documents) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")
    print(f"{path}: {len(documents)} documents, {len(text.encode()):,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description="Rebuild the bundled text from its packages.")
    parser.add_argument("--janeaustenr", type=Path, required=True,
                        help="the R package, unpacked: the folder that holds data/Rdata.rdb")
    parser.add_argument("--chinese_poetry", type=Path, required=True,
                        help="the npm package, unpacked: the folder that holds dist/quantangshi")
    parser.add_argument("--output_dir", type=Path, default=HERE,
                        help="where english/ and chinese/ are written (default: %(default)s)")
    args = parser.parse_args()
    write_english(args.janeaustenr, args.output_dir / "english")
    write_chinese(args.chinese_poetry, args.output_dir / "chinese")


if __name__ == "__main__":
    main()
