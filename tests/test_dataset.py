"""The bundled text and the two tasks made from it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dataset.build_tasks import passages, read_documents, split_of
from dataset.build_text import chapters, every_so_often, sentences
from model.configuration_albert import AlbertConfig
from model.tokenization_albert import AlbertTokenizer

ROOT = Path(__file__).resolve().parent.parent
DATASET = ROOT / "dataset"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    subprocess.run([sys.executable, DATASET / "build_tasks.py", "--output_dir", folder],
                   check=True, capture_output=True, cwd=folder)
    return folder


def rows(path: Path) -> list[list[str]]:
    header, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    cells = [line.split("\t") for line in lines]
    assert all(len(row) == len(header.split("\t")) for row in cells), path
    return cells


def test_bundled_text_is_small_and_its_layout_is_one_sentence_a_line() -> None:
    files = [path for path in DATASET.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) < 4_000_000
    for path in [*DATASET.glob("english/*.txt"), *DATASET.glob("chinese/*.txt")]:
        data = path.read_bytes()
        assert data.endswith(b"\n") and not data.endswith(b"\n\n") and b"\r" not in data
        documents = read_documents(path)
        assert len(documents) >= 15
        assert all(line == line.strip() and line for document in documents for line in document)


def test_poems_are_four_couplets_and_no_couplet_comes_twice() -> None:
    poems = read_documents(DATASET / "chinese" / "tang_regulated_verse.txt")
    assert len(poems) == 9_000
    assert all(len(poem) == 4 and len({len(line) for line in poem}) == 1 for poem in poems)
    assert max(Counter(line for poem in poems for line in poem).values()) == 1


def test_english_task(tasks: Path) -> None:
    novels = {path.stem for path in (DATASET / "english").glob("*.txt")}
    splits = {s: rows(tasks / "english" / f"{s}.tsv") for s in ("train", "dev", "test")}
    assert len(splits["train"]) > 5_000 and len(splits["dev"]) > 1_000
    assert {label for split in splits.values() for _, label in split} == novels
    assert len(novels) == 6
    for split in ("dev", "test"):
        (_, most), = Counter(label for _, label in splits[split]).most_common(1)
        assert most / len(splits[split]) < 0.3
    texts = [text for split in splits.values() for text, _ in split]
    assert all(len(text.split()) >= 30 for text in texts)
    assert len(set(texts)) == len(texts)


def test_chinese_task_is_balanced_and_length_says_nothing(tasks: Path) -> None:
    for split, count in {"train": 7_200, "dev": 900, "test": 900}.items():
        pairs = rows(tasks / "chinese" / f"{split}.tsv")
        assert len(pairs) == count
        assert all(len(a) == len(b) and a != b for a, b, _ in pairs)
        share = sum(label == "1" for *_, label in pairs) / count
        assert 0.47 < share < 0.53


def test_chinese_labels_follow_the_poems(tasks: Path) -> None:
    first_of = {poem[-1]: poem[0] for poem in read_documents(
        DATASET / "chinese" / "tang_regulated_verse.txt")}
    for a, b, label in rows(tasks / "chinese" / "dev.tsv"):
        first, last = (a, b) if label == "1" else (b, a)
        assert first_of[last] == first


def test_no_document_is_in_two_splits_and_the_corpus_has_none_of_dev_or_test(tasks: Path) -> None:
    for language, columns in (("english", 1), ("chinese", 2)):
        corpus = (tasks / language / "corpus.txt").read_text(encoding="utf-8")
        flat = corpus.replace("\n", " ")
        train = {text for row in rows(tasks / language / "train.tsv") for text in row[:columns]}
        assert all(text in flat for text in train)
        for split in ("dev", "test"):
            texts = [text for row in rows(tasks / language / f"{split}.tsv")
                     for text in row[:columns]]
            assert train.isdisjoint(texts)
            assert not any(text in flat for text in texts)


def test_same_files_every_time(tasks: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, DATASET / "build_tasks.py", "--output_dir", tmp_path],
                   check=True, capture_output=True)
    for path in tasks.rglob("*.*"):
        assert path.read_bytes() == (tmp_path / path.relative_to(tasks)).read_bytes()


def test_tokenizers_know_their_text_and_fit_the_configs(tasks: Path) -> None:
    for folder, language in (("tiny_en", "english"), ("tiny_zh", "chinese")):
        tokenizer = AlbertTokenizer.from_pretrained(DATASET / folder)
        assert len(tokenizer) == AlbertConfig.from_pretrained(DATASET / folder).vocab_size
        texts = [row[0] for row in rows(tasks / language / "dev.tsv")]
        ids = [i for text in tokenizer.encode_batch(texts) for i in text]
        assert ids.count(tokenizer.unk_token_id) < 0.01 * len(ids)


def test_sentences() -> None:
    assert sentences('"Oh!" said Mr. Weston, and left.  She _was_ glad.') == [
        '"Oh!" said Mr. Weston, and left.', "She was glad."]
    assert sentences('He asked, "why?" and went. "No."') == ['He asked, "why?" and went.', '"No."']


def test_chapters_leave_out_headings_notes_and_what_comes_after_the_end() -> None:
    text = ["EMMA", "", "VOLUME I", "", "CHAPTER I", "", "One fine", "day. Two.", "",
            "[A note.", "More of it.]", "", "CHAPTER II", "", "Three.", "", "FINIS", "", "Four."]
    assert chapters(text) == [["One fine day.", "Two."], ["Three."]]


def test_every_so_often() -> None:
    assert every_so_often(range(10), 0.5) == [1, 3, 5, 7, 9]
    assert every_so_often(range(3), 2.0) == [0, 1, 2]


def test_split_and_passages() -> None:
    assert [split_of(i, 8) for i in range(8)].count("train") == 6
    sentence = " ".join(["word"] * 20) + "."
    assert passages([sentence] * 5) == [f"{sentence} {sentence}"] * 2
