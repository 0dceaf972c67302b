"""Raw text to shards, and from shards to instances."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import prepare_lm_data
from model.tokenization_albert import AlbertTokenizer
from processors.corpus import CorpusError, find_inputs, read_documents, sentences
from processors.pretraining import PretrainingDataset, WordMasking, collate_pretraining
from processors.shards import Corpus, ShardError

TOKENIZER = Path(__file__).parent / "fixtures" / "tokenizer_english"
TEXT = "\n\n".join(
    "\n".join(f"Sentence {i} of document {d} says that {d} and {i} are numbers." for i in range(9))
    for d in range(40)) + "\n"


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def prepare(*inputs: Path, out: Path, more: tuple[str, ...] = ()) -> int:
    return prepare_lm_data.main(["--input", *map(str, inputs), "--output_dir", str(out),
                                 "--tokenizer_dir", str(TOKENIZER), "--num_workers", "1", *more])


def test_shards_hold_the_text(text, tmp_path):
    assert prepare(text, out=tmp_path / "a", more=("--heldout_fraction", "0.2")) == 0
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path / "a")
    parts = [Corpus(tmp_path / "a", split, tokenizer.fingerprint())
             for split in ("train", "heldout")]
    assert sum(part.total("documents") for part in parts) == 40
    assert 1 <= parts[1].total("documents") <= 20
    found = set()
    for part in parts:
        for shard in part.shards:
            for start, end in zip(shard.sentences[:-1], shard.sentences[1:], strict=True):
                found.add(tuple(shard.tokens[start:end].tolist()))
    assert found == {tuple(ids) for ids in tokenizer.encode_batch(
        [line for line in TEXT.splitlines() if line])}


def test_shards_do_not_depend_on_workers_or_packing(text, tmp_path):
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    lines = tmp_path / "text.jsonl"
    lines.write_text("".join(json.dumps({"t": d}) + "\n" for d in TEXT.strip().split("\n\n")))
    assert prepare(text, out=tmp_path / "one") == 0
    assert prepare(packed, out=tmp_path / "two", more=("--num_workers", "2")) == 0
    assert prepare(lines, out=tmp_path / "three", more=("--json_field", "t")) == 0
    prints = {json.loads((tmp_path / n / "manifest.json").read_text())["fingerprint"]
              for n in ("one", "two", "three")}
    assert len(prints) == 1


def test_duplicates_are_dropped_on_request(text, tmp_path, capsys):
    assert prepare(text, text, out=tmp_path / "kept") == 0  # named twice is read once
    again = tmp_path / "again.txt"
    again.write_text(TEXT, encoding="utf-8")
    assert prepare(text, again, out=tmp_path / "single", more=("--dedup",)) == 0
    assert json.loads((tmp_path / "single" / "manifest.json").read_text())[
        "counts"]["duplicates"] == 40
    assert "duplicates left out" in capsys.readouterr().out


def test_row_19_three_lines_work_and_an_empty_file_is_told(tmp_path, capsys):
    (tmp_path / "three.txt").write_text("One line.\nAnother line.\nA third.\n", encoding="utf-8")
    assert prepare(tmp_path / "three.txt", out=tmp_path / "a",
                   more=("--heldout_fraction", "0")) == 0
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path / "a")
    assert len(PretrainingDataset(Corpus(tmp_path / "a"), tokenizer, 32)) == 1
    (tmp_path / "empty.txt").write_text("\n\n", encoding="utf-8")
    assert prepare(tmp_path / "empty.txt", out=tmp_path / "b") == 1
    assert "at least one document" in capsys.readouterr().err
    assert not (tmp_path / "b" / "manifest.json").exists()


def test_row_20_a_bad_byte_is_named(tmp_path, capsys):
    (tmp_path / "bad.txt").write_bytes(b"fine\n\nbad \xff byte\n")
    assert prepare(tmp_path / "bad.txt", out=tmp_path / "a") == 1
    assert "bad.txt, line 3" in capsys.readouterr().err
    assert not (tmp_path / "a" / "manifest.json").exists()
    with pytest.raises(ShardError, match="no manifest.json"):
        Corpus(tmp_path / "a")


def test_row_21_one_giant_document_is_warned_of(tmp_path, caplog):
    (tmp_path / "flat.txt").write_text("A line of text.\n" * 200, encoding="utf-8")
    prepare(tmp_path / "flat.txt", out=tmp_path / "a", more=("--heldout_fraction", "0"))
    assert "one giant document" in caplog.text


def test_row_22_shards_of_another_tokenizer(text, tmp_path):
    prepare(text, out=tmp_path / "a")
    with pytest.raises(ShardError, match="another tokenizer"):
        Corpus(tmp_path / "a", "train", "0" * 32)


def test_damaged_shards_are_told_on_opening(text, tmp_path):
    prepare(text, out=tmp_path / "a")
    path = tmp_path / "a" / "train-00000.tokens.npy"
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(ShardError, match="train-00000.tokens.npy"):
        Corpus(tmp_path / "a")


def test_sentences_are_split_on_request():
    english = 'He met Mr. Brown at 3.5 miles. "Why?" she asked! I saw J. Smith. 12 left.'
    assert sentences([english], "en") == [
        "He met Mr. Brown at 3.5 miles.", '"Why?" she asked!', "I saw J. Smith.", "12 left."]
    assert sentences(["他来了。“走吧！”她说。好？"], "zh") == [
        "他来了。", "“走吧！”", "她说。", "好？"]
    assert sentences([english]) == [english]


def test_inputs_that_are_not_there_are_named(tmp_path):
    with pytest.raises(CorpusError, match="nothing.*no such file"):
        find_inputs([str(tmp_path / "nothing*.txt")])
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(CorpusError, match="line 1.*'text'"):
        list(read_documents(str(tmp_path / "x.jsonl"), json_field="text"))


# ---- instances -----------------------------------------------------------------------------------


@pytest.fixture
def data(text, tmp_path) -> PretrainingDataset:
    prepare(text, out=tmp_path / "a", more=("--heldout_fraction", "0"))
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path / "a")
    return PretrainingDataset(Corpus(tmp_path / "a"), tokenizer, 48,
                              masking=WordMasking(tokenizer, max_predictions=7))


def restored(instance: dict) -> np.ndarray:
    ids = instance["input_ids"].copy()
    ids[instance["masked_lm_positions"]] = instance["masked_lm_ids"]
    return ids


def test_rows_15_to_17_masks(data):
    tokenizer = AlbertTokenizer.from_pretrained(data.corpus.folder)
    ordinary = set(tokenizer.ordinary_ids.tolist())
    kinds = np.zeros(3)
    reached = np.zeros(48, bool)
    swapped = []
    for epoch in range(12):
        for index in range(data.epoch_size(epoch)):
            one = data[epoch, index]
            ids, positions = one["input_ids"], one["masked_lm_positions"]
            assert 1 <= len(positions) <= min(7, max(1, round(0.15 * len(ids))))
            assert positions == sorted(set(positions))
            plain = restored(one)
            specials = np.flatnonzero(np.isin(plain, [tokenizer.cls_token_id,
                                                      tokenizer.sep_token_id]))
            assert specials[0] == 0 and specials[-1] == len(ids) - 1 and len(specials) == 3
            assert not set(positions) & set(specials.tolist())
            assert (one["token_type_ids"] == (np.arange(len(ids)) > specials[1])).all()
            reached[positions] = True
            for place, label in zip(positions, one["masked_lm_ids"], strict=True):
                if ids[place] == tokenizer.mask_token_id:
                    kinds[0] += 1
                else:
                    assert int(ids[place]) in ordinary
                    kinds[1 if ids[place] == label else 2] += 1
            swapped.append(one["sentence_order_labels"])
    assert set(swapped) == {0, 1} and abs(np.mean(swapped) - 0.5) < 0.06
    assert np.abs(kinds / kinds.sum() - [0.8, 0.1, 0.1]).max() < 0.03
    assert reached[1:47].all()  # up to the last token before the last [SEP]


def test_n_gram_lengths_follow_the_law():
    tokenizer = AlbertTokenizer.from_pretrained(TOKENIZER)
    masking = WordMasking(tokenizer, max_predictions=10_000)
    rng = np.random.default_rng(0)
    words = np.arange(0, 40_001, 2)  # 20,000 words of two tokens each
    chosen = np.array(masking.choose([words], 6_000, rng))
    assert len(chosen) <= 6_000 and (np.diff(chosen.reshape(-1, 2), axis=1) == 1).all()
    runs = np.diff(np.flatnonzero(np.diff(np.append(np.append(-9, chosen), 10**9)) > 1)) // 2
    shares = np.bincount(runs, minlength=4)[1:4] / len(runs)
    # neighbours that touch make some runs longer; the law itself is 6/11, 3/11, 2/11
    assert np.abs(shares - np.array([6, 3, 2]) / 11).max() < 0.08


def test_segments_are_neighbours_and_cover_the_text(data):
    first = {tuple(restored(data[0, i]).tolist()) for i in range(len(data))}
    again = {tuple(restored(data[0, i]).tolist()) for i in range(len(data))}
    other = {tuple(restored(data[1, i]).tolist()) for i in range(data.epoch_size(1))}
    assert first == again and first != other
    starts, ends = data.chunks(0)
    assert starts[0] == 0 and ends[-1] == data.corpus.total("sentences")
    assert (starts[1:] == ends[:-1]).all()


def test_row_24_order_prediction_can_be_left_out(data):
    data.sop = False
    features = [data[0, i] for i in range(4)]
    assert all(f["sentence_order_labels"] == -100 for f in features)
    assert "sentence_order_labels" not in collate_pretraining(features, sop=False)
    batch = collate_pretraining(features)
    assert batch["masked_lm_weights"].sum() == sum(len(f["masked_lm_ids"]) for f in features)


def test_static_masks_come_again(data):
    data.static_epochs = 2
    assert (data[0, 3]["input_ids"] == data[2, 3]["input_ids"]).all()
    assert data[1, 3]["masked_lm_positions"] != data[0, 3]["masked_lm_positions"] or (
        data[1, 3]["input_ids"].tolist() != data[0, 3]["input_ids"].tolist())


# ---- stops, whole words --------------------------------------------------------------------------


def test_row_18_a_killed_preparation_goes_on_to_the_same_bytes(tmp_path):
    """Killed after the second shard; the third start finds the work done in the meantime."""
    import signal
    import subprocess
    import sys

    from toy import ENVIRONMENT, ROOT
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{TEXT}\n" for _ in range(60)), encoding="utf-8")  # 8 MB
    more = ("--shard_tokens", "300000", "--heldout_fraction", "0.1")
    assert prepare(path, out=tmp_path / "whole", more=more) == 0
    flags = ["--input", str(path), "--output_dir", str(tmp_path / "killed"), "--tokenizer_dir",
             str(TOKENIZER), "--num_workers", "1", *more]
    process = subprocess.Popen([sys.executable, ROOT / "prepare_lm_data.py", *flags],
                               env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    state = tmp_path / "killed" / ".unfinished.npz"
    while not state.exists():
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "manifest.json").exists()
    before = (tmp_path / "killed" / "train-00000.tokens.npy").stat().st_mtime_ns
    assert prepare(path, out=tmp_path / "killed", more=more) == 0
    assert (tmp_path / "killed" / "train-00000.tokens.npy").stat().st_mtime_ns == before
    names = {p.name for p in (tmp_path / "whole").iterdir()}
    assert names == {p.name for p in (tmp_path / "killed").iterdir()} and len(names) > 9
    for name in names - {"manifest.json"}:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()
    one, other = (json.loads((tmp_path / n / "manifest.json").read_text())
                  for n in ("whole", "killed"))
    assert one["counts"] == other["counts"] and one["splits"] == other["splits"]


def test_work_of_other_settings_is_not_gone_on_with(text, tmp_path, caplog):
    prepare(text, out=tmp_path / "a", more=("--shard_tokens", "500"))
    (tmp_path / "a" / ".unfinished.npz").write_bytes(b"")
    np.savez(tmp_path / "a" / ".unfinished.npz", state=np.array(json.dumps({"key": "another"})))
    prepare(text, out=tmp_path / "a", more=("--overwrite_output_dir",))
    assert "starting anew" in caplog.text
    assert Corpus(tmp_path / "a").total("documents") > 30


def test_chinese_words_are_masked_whole_on_request(tmp_path):
    pytest.importorskip("jieba")
    sentence = "我们学习自然语言处理，北京大学在北京。"
    path = tmp_path / "zh.txt"
    path.write_text("\n".join([sentence] * 6) + "\n", encoding="utf-8")
    folder = Path(__file__).parent.parent / "dataset" / "tiny_zh"
    assert prepare_lm_data.main(["--input", str(path), "--output_dir", str(tmp_path / "a"),
                                 "--tokenizer_dir", str(folder), "--num_workers", "1",
                                 "--heldout_fraction", "0", "--whole_words", "zh"]) == 0
    import jieba
    [shard] = Corpus(tmp_path / "a").shards
    words = list(jieba.cut(sentence))
    begins = [at for word in words for at in [True] + [False] * (len(word) - 1)]
    assert len(words) < len(sentence) - 4
    assert shard.words[:len(begins)].tolist() == begins
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path / "a")
    data = PretrainingDataset(Corpus(tmp_path / "a"), tokenizer, 64,
                              masking=WordMasking(tokenizer, 0.3, 20))
    one = data[0, 0]
    chosen = set(one["masked_lm_positions"])
    starts = np.flatnonzero(np.append(shard.words, True))
    assert chosen
    if one["sentence_order_labels"] == 0:  # the text as it stands, after [CLS]
        cut = int((one["token_type_ids"] == 0).sum()) - 2
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            shift = 1 if end <= cut else 2
            word = set(range(start + shift, end + shift))
            assert word <= chosen or not word & chosen
