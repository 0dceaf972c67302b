"""Masks, pairs and lengths: the law they follow, and that nothing but the seed decides them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import prepare_lm_data
from callback.plan import ShuffledPlan, batch_stream
from model.tokenization_albert import AlbertTokenizer
from processors.pretraining import PretrainingDataset, WordMasking, collate_pretraining
from processors.shards import Corpus

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two novels of the bundled prose, 0.7 MB, with the bundled tokenizer."""
    folder = tmp_path_factory.mktemp("shards")
    texts = [str(ROOT / "dataset" / "english" / f"{name}.txt") for name in ("emma", "persuasion")]
    assert prepare_lm_data.main(["--input", *texts, "--output_dir", str(folder), "--tokenizer_dir",
                                 str(ROOT / "dataset" / "tiny_en"), "--num_workers", "1",
                                 "--shard_tokens", "50000", "--heldout_fraction", "0"]) == 0
    return folder


def dataset(shards: Path, length: int = 64, predictions: int = 10) -> PretrainingDataset:
    tokenizer = AlbertTokenizer.from_pretrained(shards)
    return PretrainingDataset(Corpus(shards), tokenizer, length,
                              masking=WordMasking(tokenizer, max_predictions=predictions))


@pytest.mark.parametrize("name", ["len128", "len512"])
def test_distribution_is_the_official_one(shards: Path, shared, name: str) -> None:
    official = json.loads(shared("reference/pretraining_data_statistics.json").read_text())[name]
    data = dataset(shards, int(name[3:]), official["max_predictions_per_seq"])
    mask_id = AlbertTokenizer.from_pretrained(shards).mask_token_id
    tokens = masked = 0
    fates, swapped = np.zeros(3), []
    for epoch in range(2 if name == "len128" else 8):
        for index in range(data.epoch_size(epoch)):
            one = data[epoch, index]
            tokens += len(one["input_ids"])
            masked += len(one["masked_lm_ids"])
            assert len(one["masked_lm_ids"]) <= official["max_predictions_per_seq"]
            shown = one["input_ids"][one["masked_lm_positions"]]
            fates += [(shown == mask_id).sum(),
                      ((shown != mask_id) & (shown != one["masked_lm_ids"])).sum(),
                      (shown == one["masked_lm_ids"]).sum()]
            if one["sentence_order_labels"] >= 0:
                swapped.append(one["sentence_order_labels"])
    assert abs(masked / tokens - official["masked_share_of_tokens"]) < 0.01
    theirs = [official["replacement"][fate] for fate in ("mask", "random", "keep")]
    assert np.abs(fates / fates.sum() - theirs).max() < 0.01
    assert abs(np.mean(swapped) - 0.5) < 3 * 0.5 / np.sqrt(len(swapped))  # three deviations


@pytest.mark.parametrize("workers", [1, 3])
def test_loader_workers_change_nothing(shards: Path, workers: int) -> None:
    data = dataset(shards)
    plan = ShuffledPlan(data.epoch_size, 16, seed=5)
    collate = partial(collate_pretraining, pad_token_id=0)

    def first(count: int) -> list:
        stream = batch_stream(data, collate, plan, 4, 0, 0, 0, 1, count)
        return [next(stream) for _ in range(6)]

    for (here, ours), (there, theirs) in zip(first(0), first(workers), strict=True):
        assert here == there
        for one, other in zip(ours, theirs, strict=True):
            assert one.keys() == other.keys()
            assert all((one[key] == other[key]).all() for key in one)


def test_an_instance_does_not_depend_on_those_before_it(shards: Path) -> None:
    data, again = dataset(shards), dataset(shards)
    for index in (200, 3, 77):
        again[0, index]
    one, other = data[1, 40], again[1, 40]
    assert (one["input_ids"] == other["input_ids"]).all()
    assert one["masked_lm_positions"] == other["masked_lm_positions"]


def test_a_pair_is_two_neighbouring_pieces_of_one_document(shards: Path) -> None:
    """No sentence stands on both sides: the two segments, put in order, are text as it stands."""
    data = dataset(shards, length=48)
    corpus = data.corpus
    text = [np.asarray(shard.tokens) for shard in corpus.shards]
    for index in range(0, len(data), 37):
        one = data[0, index]
        ids = one["input_ids"].copy()
        ids[one["masked_lm_positions"]] = one["masked_lm_ids"]
        if one["sentence_order_labels"] < 0:
            continue
        split = int((one["token_type_ids"] == 0).sum())
        segments = [ids[1:split - 1], ids[split:-1]]
        if one["sentence_order_labels"] == 1:
            segments.reverse()
        first = int(data.chunks(0)[0][index])
        number = int(np.searchsorted(corpus.first_sentence, first, side="right")) - 1
        shard = corpus.shards[number]
        start = int(shard.sentences[first - corpus.first_sentence[number]])
        end = int(shard.sentences[data.chunks(0)[1][index] - corpus.first_sentence[number]])
        chunk = text[number][start:end].tobytes()
        width = text[number].itemsize
        places = [chunk.find(s.astype(text[number].dtype).tobytes()) // width for s in segments]
        assert min(places) >= 0
        assert places[0] + len(segments[0]) <= places[1]


def test_words_longer_than_the_budget_are_left_alone(shards: Path) -> None:
    tokenizer = AlbertTokenizer.from_pretrained(shards)
    masking, rng = WordMasking(tokenizer, max_predictions=20), np.random.default_rng(0)
    assert masking.choose([np.array([1, 9]), np.array([10, 18])], 2, rng) == []
    ids = np.arange(20)
    masking.corrupt(ids, [], rng)
    assert (ids == np.arange(20)).all()
    one = {"input_ids": ids, "token_type_ids": ids * 0, "masked_lm_positions": [],
           "masked_lm_ids": ids[[]], "sentence_order_labels": -100}
    for batch in (collate_pretraining([one]), collate_pretraining([one, one])):
        assert batch["masked_lm_weights"].shape[1] == 1 and batch["masked_lm_weights"].sum() == 0
