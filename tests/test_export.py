"""Exports compute what the model does, or are not kept (row 51 of the users' cases)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import export_model
from model.configuration_albert import AlbertConfig
from model.exporting import (
    ExportError,
    eager,
    export_onnx,
    largest_difference,
    output_names,
    random_inputs,
    session,
)
from model.modeling_albert import HEADS, AlbertForSequenceClassification
from model.tokenization_albert import AlbertTokenizer

VOCAB = Path(__file__).parent / "fixtures" / "tokenizer_chinese"


def config(**changes) -> AlbertConfig:
    return AlbertConfig(**({
        "vocab_size": 1064, "embedding_size": 12, "hidden_size": 32, "num_hidden_layers": 4,
        "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 40,
        "initializer_range": 0.2} | changes))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A model directory of a classifier, with its tokenizer."""
    torch.manual_seed(1)
    tokenizer = AlbertTokenizer.from_pretrained(VOCAB)
    model = AlbertForSequenceClassification(config(vocab_size=len(tokenizer),
                                                   id2label=["否", "是", "或"]))
    model.save_pretrained(tmp_path / "model", tokenizer)
    return tmp_path / "model"


def run(folder: Path, format: str, *more: str) -> int:
    return export_model.main(["--model_name_or_path", str(folder), "--format", format,
                              "--output_dir", str(folder.parent / "out"), *more])


def test_huggingface_opens_the_folder(folder):
    transformers = pytest.importorskip("transformers")
    assert run(folder, "huggingface") == 0
    out = folder.parent / "out"
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(out).eval()
    ours = AlbertForSequenceClassification.from_pretrained(folder)
    assert theirs.config.id2label == {0: "否", 1: "是", 2: "或"}
    inputs = random_inputs(ours, 3, 9, seed=0)
    with torch.no_grad():
        found = theirs(*inputs).logits
    torch.testing.assert_close(found, ours(*inputs).logits, rtol=0, atol=1e-5)
    text = "天地玄黄"
    tokenizer = AlbertTokenizer.from_pretrained(folder)
    assert transformers.AutoTokenizer.from_pretrained(out)(text)["input_ids"] == tokenizer(
        text).input_ids[0]


def test_what_huggingface_cannot_express_is_refused(tmp_path, capsys):
    AlbertForSequenceClassification(config(layout="bright")).save_pretrained(tmp_path / "model")
    assert run(tmp_path / "model", "huggingface") == 1
    assert "bright" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("head, changes", [
    ("pretraining", {"layout": "bright", "ln_type": "preln"}),
    ("question_answering", {"squad_head": "v2"}),
    pytest.param("model", {}, marks=pytest.mark.slow),
    pytest.param("token_classification", {"share_type": "ffn"}, marks=pytest.mark.slow)])
def test_row_51_onnx_of_free_batch_and_length(head, changes, tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    model = HEADS[head](config(**changes)).eval()
    assert export_onnx(model, tmp_path) < 1e-5
    graph = onnx.load(str(tmp_path / "model.onnx"))
    assert graph.opset_import[0].version == 20
    assert [one.name for one in graph.graph.output] == list(output_names(model))
    # Shared weights are stored once, small ones a second time transposed: not once a layer.
    large = [one for one in graph.graph.initializer if np.prod(one.dims) >= 12 * 32]
    assert len(large) <= 2 * sum(p.numel() >= 12 * 32 for p in model.parameters())
    inputs = random_inputs(model, 7, 3, seed=9)  # of a shape that export did not try
    for ours, theirs in zip(eager(model, inputs), session(tmp_path / "model.onnx")(inputs),
                            strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_row_51_an_export_that_differs_is_not_kept(folder, capsys):
    pytest.importorskip("onnxruntime")
    assert run(folder, "onnx", "--tolerance", "0") == 1
    assert "--tolerance" in capsys.readouterr().err
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_graph_of_other_weights_is_seen(folder, tmp_path):
    pytest.importorskip("onnxruntime")
    model = AlbertForSequenceClassification.from_pretrained(folder)
    export_onnx(model, tmp_path)
    with torch.no_grad():
        model.classifier.bias[0] += 0.01
    assert largest_difference(model, tmp_path / "model.onnx") == pytest.approx(0.01, rel=1e-3)


def test_eight_bits(folder, tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    texts = tmp_path / "texts.txt"
    texts.write_text("天地玄黄\n宇宙洪荒\n日月盈昃\n", encoding="utf-8")
    assert run(folder, "onnx_int8", "--check_file", str(texts), "--min_agreement", "0.6") == 0
    graph = onnx.load(str(folder.parent / "out" / "model.onnx")).graph
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("MatMulInteger") >= 4 * 6  # six products with weights in every layer
    eight = [one for one in graph.initializer if one.data_type == onnx.TensorProto.INT8]
    assert 6 <= len({one.raw_data for one in eight if len(one.dims) == 2}) <= 9  # each weight once
    assert AlbertTokenizer.from_pretrained(folder.parent / "out").vocab_size == 1064
    assert run(folder, "onnx_int8", "--min_agreement", "1.1", "--overwrite_output_dir") == 1
    assert "--min_agreement" in capsys.readouterr().err


def test_problems_come_before_work(folder, capsys):
    with pytest.raises(SystemExit):
        run(folder, "pickle")
    (folder.parent / "out").mkdir()
    (folder.parent / "out" / "mine.txt").write_text("keep me")
    with pytest.raises(SystemExit):
        run(folder, "huggingface", "--check_file", "nowhere.txt")
    message = capsys.readouterr().err
    assert "not empty" in message and "nowhere.txt" in message
    assert (folder.parent / "out" / "mine.txt").read_text() == "keep me"


def test_missing_packages_are_named(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    with pytest.raises(ExportError, match="pip install onnx onnxscript onnxruntime"):
        export_onnx(AlbertForSequenceClassification.from_pretrained(folder), folder)
