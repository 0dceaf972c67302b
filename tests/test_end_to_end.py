"""From a TensorFlow checkpoint to a prediction file, through the front doors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import convert_albert_tf_checkpoint_to_pytorch as convert
import run_classifier

REFERENCE = Path(__file__).parent / "fixtures" / "reference"
WORDS = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜"


@pytest.mark.parametrize("checkpoint", ["google_g1", "bright_postln"])
def test_conversion_to_prediction(checkpoint, tmp_path):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = special + list(dict.fromkeys(WORDS))
    tokens += [f"[unused{i}]" for i in range(120 - len(tokens))]  # the references have 120 words
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    data = tmp_path / "lcqmc"
    data.mkdir()
    lines = [f"{WORDS[i:i + 6]}\t{WORDS[i + i % 3:i + 6]}\t{int(i % 3 == 0)}" for i in range(12)]
    for split in ("train", "dev", "test"):
        (data / f"{split}.tsv").write_text("text_a\ttext_b\tlabel\n" + "\n".join(lines) + "\n",
                                           encoding="utf-8")

    assert convert.main([
        "--tf_checkpoint_path", str(REFERENCE / checkpoint), "--pytorch_dump_path",
        str(tmp_path / "model"), "--vocab_file", str(tmp_path / "vocab.txt")]) == 0
    run_classifier.main([
        "--model_type", "albert", "--model_name_or_path", str(tmp_path / "model"), "--task_name",
        "lcqmc", "--do_train", "--do_eval", "--do_predict", "--data_dir", str(data),
        "--max_seq_length", "24", "--per_gpu_train_batch_size", "4", "--max_steps", "1",
        "--no_cuda", "--output_dir", str(tmp_path / "out")])

    results = json.loads((tmp_path / "out" / "eval_results.json").read_text(encoding="utf-8"))
    assert results["steps"] == 1
    assert 0 <= results["dev"]["lcqmc"]["accuracy"] <= 1
    assert results["dev"]["lcqmc"]["baseline"] == {"accuracy": pytest.approx(2 / 3)}
    assert (tmp_path / "out" / "model.safetensors").is_file()
    predictions = list((tmp_path / "out" / "predictions").iterdir())
    assert len(predictions) == 1
    rows = [json.loads(line) for line in predictions[0].read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == list(range(12))
    assert {row["label"] for row in rows} <= {"0", "1"}
