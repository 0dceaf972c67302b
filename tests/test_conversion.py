"""Weights between dialects: nothing is lost, guessed or half-applied."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import shared
from safetensors.torch import load_file, save_file

from model import modeling_albert as albert
from model.config_export import export_config
from model.configuration_albert import AlbertConfig, ConfigError
from model.conversion import (
    CheckpointError,
    WeightSource,
    detect_dialect,
    export_weights,
    from_model_names,
    infer_architecture,
    load_weights,
    open_checkpoint,
    to_model_names,
)
from model.tf_checkpoint import TensorFlowCheckpoint
from model.tf_checkpoint_writer import write_tf_checkpoint
from model.weight_names import Target
from model.weight_tables import DIALECTS

REFERENCE = Path(__file__).parent / "fixtures" / "reference"
GOOGLE, BRIGHT = REFERENCE / "google_g1", REFERENCE / "bright_postln"
LAYER = "bert.encoder.transformer.group.0.inner_group.0."
HEADS = ["AlbertModel", "AlbertForPreTraining", "AlbertForMaskedLM",
         "AlbertForSequenceClassification", "AlbertForTokenClassification",
         "AlbertForQuestionAnswering", "AlbertForMultipleChoice"]


def config(**changes) -> AlbertConfig:
    sizes = {"vocab_size": 31, "embedding_size": 6, "hidden_size": 12, "num_hidden_layers": 4,
             "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 17}
    return AlbertConfig(**sizes | changes)


def model(head: str = "AlbertForPreTraining", seed: int = 0, **changes) -> torch.nn.Module:
    """A model at random weights of which no two are alike, biases and norms included."""
    built = getattr(albert, head)(config(**changes)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.normal_(0.1, 0.3, generator=generator)
    return built


def source(tensors, dialect: str | None = None) -> WeightSource:
    return WeightSource(tensors, "weights.bin", dialect=dialect)


def equal(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    weights = dict(b.named_parameters())
    return all(torch.equal(weights[name], value) for name, value in a.named_parameters())


def read_types(tensors) -> dict[str, tuple]:
    return {name: tuple(value.shape) for name, value in tensors.items()}


# ---- the tables ----------------------------------------------------------------------------------

KNOWN = {  # names as the files of each dialect have them
    "google": {
        "bert/embeddings/word_embeddings": ("bert.embeddings.word_embeddings.weight", False),
        "bert/embeddings/LayerNorm/gamma": ("bert.embeddings.LayerNorm.weight", False),
        "bert/encoder/embedding_hidden_mapping_in/kernel":
            ("bert.encoder.embedding_hidden_mapping_in.weight", True),
        "bert/encoder/transformer/group_0/inner_group_0/attention_1/self/key/kernel":
            (LAYER + "attention.self.key.weight", True),
        "bert/encoder/transformer/group_0/inner_group_0/LayerNorm/beta":
            (LAYER + "attention.output.LayerNorm.bias", False),
        "bert/encoder/transformer/group_0/inner_group_0/LayerNorm_1/gamma":
            (LAYER + "output.LayerNorm.weight", False),
        "bert/encoder/transformer/group_2/inner_group_1/ffn_1/intermediate/output/dense/kernel":
            ("bert.encoder.transformer.group.2.inner_group.1.output.dense.weight", True),
        "cls/predictions/output_bias": ("cls.predictions.bias", False),
        "cls/seq_relationship/output_weights": ("cls.seq_relationship.weight", False),
        "output_weights": ("classifier.weight", False),
        "output_bias": ("classifier.bias", False),
        "cls/squad/output_weights": ("qa_outputs.weight", False),
        "end_logits/dense_0/kernel": ("end_logits.dense_0.weight", True),
        "answer_class/dense_1/kernel": ("answer_class.dense_1.weight", True),
    },
    "bright": {
        "bert/embeddings/word_embeddings_2": ("bert.embeddings.word_embeddings_2.weight", True),
        "bert/encoder/layer_shared/attention/output/LayerNorm/gamma":
            (LAYER + "attention.output.LayerNorm.weight", False),
        "bert/encoder/layer_shared/intermediate/dense/kernel":
            (LAYER + "intermediate.dense.weight", True),
        "bert/encoder/layer_3/output/LayerNorm/beta":
            ("bert.encoder.transformer.group.3.inner_group.0.output.LayerNorm.bias", False),
    },
    "predecessor": {
        LAYER + "LayerNorm.weight": (LAYER + "attention.output.LayerNorm.weight", False),
        LAYER + "LayerNorm_1.weight": (LAYER + "output.LayerNorm.weight", False),
        LAYER + "ffn.intermediate.dense.weight": (LAYER + "intermediate.dense.weight", False),
        LAYER + "ffn.intermediate.output.dense.bias": (LAYER + "output.dense.bias", False),
        "cls.predictions.bias": ("cls.predictions.bias", False),
        "classifier.weight": ("classifier.weight", False),
    },
    "predecessor_norms_from_1": {
        LAYER + "LayerNorm_1.bias": (LAYER + "attention.output.LayerNorm.bias", False),
        LAYER + "LayerNorm_2.bias": (LAYER + "output.LayerNorm.bias", False),
    },
    "predecessor_bright": {
        "bert.embeddings.word_embeddings_2.weight":
            ("bert.embeddings.word_embeddings_2.weight", False),
        "bert.encoder.layer_shared.attention.self.query.weight":
            (LAYER + "attention.self.query.weight", False),
        "bert.encoder.layer_shared.attention.2.output.LayerNorm.weight":  # share_type ffn
            ("bert.encoder.transformer.group.2.inner_group.0.attention.output.LayerNorm.weight",
             False),
        "bert.encoder.layer_shared.output.2.dense.weight":  # share_type attention
            ("bert.encoder.transformer.group.2.inner_group.0.output.dense.weight", False),
        "bert.encoder.layer.2.output.dense.weight":  # share_type none
            ("bert.encoder.transformer.group.2.inner_group.0.output.dense.weight", False),
    },
    "huggingface": {
        "albert.embeddings.LayerNorm.weight": ("bert.embeddings.LayerNorm.weight", False),
        "albert.encoder.embedding_hidden_mapping_in.weight":
            ("bert.encoder.embedding_hidden_mapping_in.weight", False),
        "albert.encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm.weight":
            (LAYER + "output.LayerNorm.weight", False),
        "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm.weight":
            (LAYER + "attention.output.LayerNorm.weight", False),
        "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight":
            (LAYER + "intermediate.dense.weight", False),
        "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.dense.bias":
            (LAYER + "attention.output.dense.bias", False),
        "albert.pooler.weight": ("bert.pooler.dense.weight", False),
        "sop_classifier.classifier.bias": ("cls.seq_relationship.bias", False),
        "predictions.dense.weight": ("cls.predictions.transform.dense.weight", False),
    },
    "albert_pytorch": {LAYER + "output.LayerNorm.bias": (LAYER + "output.LayerNorm.bias", False)},
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_known_names(dialect):
    for theirs, wanted in KNOWN[dialect].items():
        assert to_model_names([theirs], dialect)[theirs] == Target(*wanted)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_tables_work_both_ways(dialect, wrapped):
    layout = DIALECTS[dialect].layout or "google"
    for head in HEADS:
        names = [name if name.startswith(("bert.", "cls", "class", "qa")) else f"bert.{name}"
                 for name in dict(model(head, layout=layout).named_parameters())]
        theirs = from_model_names(names, dialect)
        assert list(theirs) == names and len(set(theirs.values())) == len(names)
        prefix = DIALECTS[dialect].wrapper if wrapped else ""
        assert detect_dialect([prefix + t.name for t in theirs.values()]) == dialect
        for name, target in theirs.items():
            back = to_model_names([prefix + target.name], dialect)[prefix + target.name]
            assert back == Target(name, target.transposed)


@pytest.mark.parametrize(("dialect", "changes"), [
    ("google", {"num_hidden_groups": 2, "inner_group_num": 2}), ("google", {"share_type": "none"}),
    ("bright", {"layout": "bright", "ln_type": "preln"}),
    ("bright", {"layout": "bright", "num_hidden_groups": 4}),
    ("predecessor", {}), ("predecessor_norms_from_1", {"num_hidden_groups": 2}),
    ("predecessor_bright", {"layout": "bright"}),
    ("predecessor_bright", {"layout": "bright", "share_type": "none"}),
    ("huggingface", {"num_hidden_groups": 2, "inner_group_num": 2}),
    ("albert_pytorch", {"layout": "bright", "share_type": "attention"}),
])
@pytest.mark.parametrize("head", HEADS)
def test_out_and_in_again(dialect, changes, head):
    first, second = model(head, **changes), model(head, seed=1, **changes)
    tensors = export_weights(first, dialect)
    report = load_weights(second, source(tensors))
    assert equal(first, second) and not report.new and not report.skipped
    assert set(report.used.values()) == set(tensors)
    assert set(report.used) == set(dict(first.named_parameters()))


def test_squad_v2_head_has_no_hugging_face_name():
    first = model("AlbertForQuestionAnswering", squad_head="v2")
    second = model("AlbertForQuestionAnswering", seed=1, squad_head="v2")
    load_weights(second, source(export_weights(first, "google")))
    assert equal(first, second)
    with pytest.raises(CheckpointError, match=r"huggingface dialect has no name for 11 weights of "
                                              r"this model: start_logits.dense.weight"):
        export_weights(first, "huggingface")


# ---- TensorFlow ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("folder", "head"), [
    ("google_g1", "AlbertForPreTraining"), ("bright_postln", "AlbertForPreTraining"),
    ("finetuned_classifier", "AlbertForSequenceClassification"),
    ("finetuned_squad_v2", "AlbertForQuestionAnswering")])
def test_tensorflow_in_and_out_is_exact(folder, head):
    checkpoint = dict(TensorFlowCheckpoint(REFERENCE / folder))
    variables = {name: value for name, value in checkpoint.items()
                 if not name.endswith(("adam_m", "adam_v")) and name != "global_step"}
    loaded = getattr(albert, head).from_pretrained(REFERENCE / folder)
    assert set(loaded.load_report.used.values()) == set(variables) and not loaded.load_report.new
    found = export_weights(loaded, loaded.config.layout)
    assert read_types(found) == read_types(variables)
    assert all(np.array_equal(found[name], variables[name]) for name in variables)


@pytest.mark.parametrize(("folder", "wanted"), [
    ("google_g1", {"layout": "google", "vocab_size": 120, "embedding_size": 16, "hidden_size": 32,
                   "intermediate_size": 64, "max_position_embeddings": 64, "type_vocab_size": 2,
                   "num_hidden_groups": 1, "inner_group_num": 1, "head": "pretraining"}),
    ("bright_postln", {"layout": "bright", "embedding_size": 16, "hidden_size": 32,
                       "max_position_embeddings": 64, "head": "pretraining"}),
    ("finetuned_classifier", {"num_labels": 3, "head": "classification"}),
    ("finetuned_squad_v2", {"squad_head": "v2", "head": "question_answering"})])
def test_what_weights_prove(folder, wanted):
    proven = infer_architecture(open_checkpoint(REFERENCE / folder))
    assert wanted.items() <= proven.items()


@pytest.mark.parametrize(("folder", "wanted"), [
    ("google_g2i2", {"num_hidden_groups": 2, "inner_group_num": 2}),
    ("google_g4_unshared", {"num_hidden_groups": 4}), ("google_g1_hub", {"head": "masked_lm"}),
    ("finetuned_race", {"num_labels": 1, "head": "multiple_choice"}),
    ("finetuned_squad_v1", {"squad_head": "v1", "head": "question_answering"})])
def test_what_more_weights_prove(folder, wanted):
    proven = infer_architecture(open_checkpoint(shared(f"reference/{folder}")))
    assert wanted.items() <= proven.items()


def test_row_1_layout_is_told_by_the_weights():
    google = AlbertConfig.from_pretrained(GOOGLE)
    loaded = albert.AlbertForPreTraining.from_pretrained(BRIGHT, config=google)
    assert loaded.config.layout == "bright" and not loaded.load_report.new
    bright = AlbertConfig.from_pretrained(BRIGHT)
    loaded = albert.AlbertForPreTraining.from_pretrained(GOOGLE, config=bright)
    assert loaded.config.layout == "google" and not loaded.load_report.new


def test_row_1_a_real_mismatch_names_both():
    wrong = AlbertConfig.from_pretrained(GOOGLE).replace(intermediate_size=48, vocab_size=99)
    with pytest.raises(ConfigError, match=r"(?s)vocab_size: config 99, weights 120.*"
                                          r"intermediate_size: config 48, weights 64"):
        albert.AlbertModel.from_pretrained(GOOGLE, config=wrong)


def test_row_3_slots_are_listed_and_heads_find_their_class(caplog):
    report = albert.AlbertForPreTraining.from_pretrained(GOOGLE).load_report
    assert len(report.skipped) == 65 and report.skipped["global_step"] == "training counter"
    assert report.skipped["bert/pooler/dense/kernel/adam_v"] == "optimizer slot"
    classifier = REFERENCE / "finetuned_classifier"
    report = albert.AlbertForSequenceClassification.from_pretrained(classifier).load_report
    assert report.used["classifier.weight"] == "output_weights"
    report = albert.AlbertForMaskedLM.from_pretrained(classifier).load_report
    assert report.skipped["output_weights"] == "head not in this model (classifier.weight)"
    assert set(report.new) == {
        "cls.predictions.bias", *(f"cls.predictions.transform.{module}.{kind}" for module in
                                  ("dense", "LayerNorm") for kind in ("weight", "bias"))}
    assert "cls.predictions.bias" in caplog.text  # row 7: said, never silently random


@pytest.mark.parametrize("names", [
    ["bert/embeddings/word_embeddings", "bert/encoder/layer_0/attention/self/query/kernel"],
    ["bert.encoder.layer.0.attention.self.query.weight", "bert.pooler.dense.weight"],
    ["module.encoder.layer.11.attention.self.query.bias"]])
def test_row_4_bert_is_refused(names):
    with pytest.raises(CheckpointError, match="weights.bin: a BERT checkpoint: this is not fact"):
        infer_architecture(source(dict.fromkeys(names, torch.zeros(2))))


def test_other_files_are_refused():
    with pytest.raises(CheckpointError, match=r"weights.bin: not an ALBERT.* 2 names such as a, z"):
        _ = source({"z": 1, "a": 2}).dialect


def test_row_6_a_variable_that_the_model_lacks():
    extra = "bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/adapter/kernel"
    deeper = "bert/encoder/transformer/group_1/inner_group_0/ffn_1/intermediate/dense/kernel"
    first = model()
    tensors = export_weights(first, "google")
    tensors |= {extra: np.ones((12, 20), "f4"), deeper: np.ones((12, 20), "f4")}
    second = model(seed=1)
    report = load_weights(second, source(tensors))
    assert equal(first, second) and not report.new
    assert report.skipped == {
        extra: "no such weight in the google dialect",
        deeper: "this model has no bert.encoder.transformer.group.1.inner_group.0."
                "intermediate.dense.weight"}


def test_row_5_damage_names_file_and_tensor(tmp_path):
    shutil.copytree(GOOGLE, tmp_path / "g")
    file = tmp_path / "g" / "model.ckpt-best.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[1000] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"g/model.ckpt-best, tensor bert/embeddings/"
                                              r"position_embeddings: does not match its checksum"):
        albert.AlbertModel.from_pretrained(tmp_path / "g")


# ---- loading -------------------------------------------------------------------------------------


def test_all_shapes_that_differ_are_listed_and_nothing_is_changed():
    target, before = model(seed=1), model(seed=1)
    tensors = export_weights(model(vocab_size=30, intermediate_size=21), "google")
    with pytest.raises(CheckpointError) as error:
        load_weights(target, source(tensors))
    lines = str(error.value).splitlines()
    assert lines[0] == "weights.bin: 5 shapes differ from the model's:"
    assert ("  bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/kernel "
            f"(12, 21) for {LAYER}intermediate.dense.weight (20, 12)") in lines
    assert equal(target, before)


def test_two_inputs_for_one_parameter():
    tensors = export_weights(model(), "google")
    tensors["module/bert/pooler/dense/bias"] = tensors["bert/pooler/dense/bias"]
    with pytest.raises(CheckpointError, match="both bert/pooler/dense/bias and module/bert/pooler"):
        load_weights(model(seed=1), source(tensors))


def test_a_head_started_anew():
    first, second, before = model(), model(seed=1), model(seed=1)
    report = load_weights(second, source(export_weights(first, "google")),
                          ignore={"cls.seq_relationship.weight", "cls.seq_relationship.bias"})
    assert report.new == ["cls.seq_relationship.weight", "cls.seq_relationship.bias"]
    assert report.skipped["cls/seq_relationship/output_bias"] == "the head is started anew"
    assert torch.equal(second.cls["seq_relationship"].weight, before.cls["seq_relationship"].weight)


@pytest.mark.parametrize("dialect", ["google", "albert_pytorch", "huggingface", "predecessor"])
def test_encoder_alone_and_in_a_head(dialect):
    whole, alone = model("AlbertForPreTraining"), model("AlbertModel", seed=1)
    report = load_weights(alone, source(export_weights(whole, dialect)))
    assert equal(alone, whole.bert) and not report.new and len(report.skipped) == 7
    tensors = export_weights(alone, dialect)
    base = DIALECTS[dialect].base
    tensors = {name.removeprefix(base): value for name, value in tensors.items()}  # as saved alone
    whole = model("AlbertForPreTraining", seed=2)
    report = load_weights(whole, source(tensors))
    assert equal(alone, whole.bert) and len(report.new) == 7 and not report.skipped


def test_tied_copies(caplog):
    first, second = model(layout="bright"), model(seed=1, layout="bright")
    tensors = export_weights(first, "predecessor_bright")
    words, wide = (tensors[f"bert.embeddings.word_embeddings{end}.weight"] for end in ("", "_2"))
    tensors["cls.predictions.decoder.weight"] = words.clone()
    tensors["cls.predictions.project_layer.weight"] = wide.t().clone()
    report = load_weights(second, source(tensors))
    assert equal(first, second) and not caplog.text
    assert report.skipped == {
        "cls.predictions.decoder.weight": "tied copy of bert.embeddings.word_embeddings.weight",
        "cls.predictions.project_layer.weight":
            "tied copy of bert.embeddings.word_embeddings_2.weight"}
    tensors["cls.predictions.project_layer.weight"][0, 0] += 1
    report = load_weights(second, source(tensors))
    assert equal(first, second) and "project_layer.weight differs from" in caplog.text
    assert report.skipped["cls.predictions.project_layer.weight"].endswith("from which it differs")


def test_a_tied_copy_stands_in_for_its_original():
    first, second = model(layout="bright"), model(seed=1, layout="bright")
    tensors = export_weights(first, "predecessor_bright")
    tensors["cls.predictions.project_layer.weight"] = tensors.pop(
        "bert.embeddings.word_embeddings_2.weight").t().contiguous()
    load_weights(second, source(tensors))
    assert equal(first, second)


@pytest.mark.parametrize("kind", ["ffn", "attention"])
def test_predecessor_that_shares_a_part(kind):
    first = model("AlbertModel", layout="bright", share_type=kind)
    tensors = {}
    for name, value in first.named_parameters():
        parts = name.split(".")
        if parts[:3] == ["encoder", "transformer", "group"]:
            shared_block = (parts[6] == "attention") == (kind == "attention")
            inner = parts[6:] if shared_block else [parts[6], parts[3], *parts[7:]]
            name = ".".join(["encoder", "layer_shared", *inner])
        tensors[name] = value.detach()
    assert any("layer_shared.attention.3." in n for n in tensors) == (kind == "ffn")
    second = model("AlbertModel", seed=1, layout="bright", share_type=kind)
    report = load_weights(second, source(tensors))
    assert equal(first, second) and not report.new and not report.skipped


# ---- files ---------------------------------------------------------------------------------------


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("legacy", [False, True])
def test_row_9_a_pickle_that_runs_code_is_refused(tmp_path, legacy):
    file, trace = tmp_path / "pytorch_model.bin", tmp_path / "was_here"
    torch.save({"a": Evil(trace)}, file, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(CheckpointError, match=r"pytorch_model.bin: refused, .* posix\.mkdir"):
        open_checkpoint(tmp_path)
    assert not trace.exists()


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("nested", [None, "state_dict"])
def test_predecessor_directory(tmp_path, legacy, nested):
    first = model()
    tensors = {f"module.{name}": value
               for name, value in export_weights(first, "predecessor").items()}
    tensors["module.cls.predictions.decoder.weight"] = \
        tensors["module.bert.embeddings.word_embeddings.weight"]
    torch.save({nested: tensors} if nested else tensors, tmp_path / "pytorch_model.bin",
               _use_new_zipfile_serialization=not legacy)
    settings = export_config(first.config, "predecessor") | {"hidden_act": "gelu"}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    second = albert.AlbertForPreTraining.from_pretrained(tmp_path)
    assert equal(first, second) and second.load_report.new == []
    assert second.config.hidden_act == "gelu"  # exact there
    assert open_checkpoint(tmp_path / "pytorch_model.bin").dialect == "predecessor"


def test_pickles_of_something_else(tmp_path):
    file = tmp_path / "x.bin"
    torch.save(torch.ones(2), file)
    with pytest.raises(CheckpointError, match="holds a Tensor, expected a state_dict"):
        open_checkpoint(file)
    torch.save({"epoch": 3, "w": torch.ones(2)}, file)
    with pytest.raises(CheckpointError, match="x.bin: expected a state_dict .* under epoch"):
        open_checkpoint(file)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("legacy", [False, True])
def test_damaged_pickles(tmp_path, legacy):
    file = tmp_path / "x.bin"
    values = torch.arange(24.0)
    torch.save({"w": values}, file, _use_new_zipfile_serialization=not legacy)
    content = file.read_bytes()
    for length in range(0, len(content), 7):
        file.unlink()  # a mapped file must not change under its readers
        file.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="x.bin: "):
            open_checkpoint(file)
    if legacy:
        return  # has no checksums
    for at in range(len(content)):
        file.unlink()
        file.write_bytes(content[:at] + bytes([content[at] ^ 0x21]) + content[at + 1:])
        try:
            found = open_checkpoint(file).tensors
            assert len(found) == 1 and torch.equal(next(iter(found.values())), values)
        except CheckpointError as error:
            assert "x.bin: " in str(error)


def test_safetensors_whole_cut_off_and_in_shards(tmp_path):
    outside, tmp_path = tmp_path / "one.safetensors", tmp_path / "model"
    tmp_path.mkdir()
    first = model()
    tensors = export_weights(first, "huggingface")
    file = tmp_path / "model.safetensors"
    save_file(tensors, str(file))
    opened = open_checkpoint(tmp_path)
    assert (opened.dialect, str(opened), opened.directories) == (
        "huggingface", str(file), (tmp_path,))
    content = file.read_bytes()
    for length in (0, 7, 100, len(content) - 1):
        file.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="model.safetensors: cannot be read"):
            open_checkpoint(tmp_path)
    file.unlink()
    names = sorted(tensors)
    shards = {"one.safetensors": names[::2], "two.safetensors": names[1::2]}
    for shard, part in shards.items():
        save_file({name: tensors[name] for name in part}, str(tmp_path / shard))
    listing = {"weight_map": {name: shard for shard, part in shards.items() for name in part}}
    listing_file = tmp_path / "model.safetensors.index.json"
    listing_file.write_text(json.dumps(listing))
    second = model(seed=1)
    load_weights(second, open_checkpoint(tmp_path))
    assert equal(first, second)
    shutil.copyfile(tmp_path / "one.safetensors", outside)
    for wrong in ("../one.safetensors", "three.safetensors"):
        listing["weight_map"][names[0]] = wrong
        listing_file.write_text(json.dumps(listing))
        with pytest.raises(CheckpointError, match=f"files that are not beside it: {wrong}"):
            open_checkpoint(tmp_path)


def test_no_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such checkpoint"):
        open_checkpoint(tmp_path / "albert_base")
    with pytest.raises(FileNotFoundError, match="no TensorFlow checkpoint"):
        open_checkpoint(tmp_path)


# ---- what a dialect cannot say -------------------------------------------------------------------


@pytest.mark.parametrize(("dialect", "changes", "message"), [
    ("huggingface", {"layout": "bright"}, "layout bright cannot be written in the huggingface"),
    ("bright", {}, "layout google cannot be written in the bright"),
    ("huggingface", {"ln_type": "preln"}, "ln_type is 'preln', expected 'postln'"),
    ("google", {"share_type": "ffn"}, "share_type is 'ffn', expected 'all' or 'none'"),
    ("google", {"hidden_act": "gelu"}, "hidden_act is 'gelu', expected 'gelu_new'"),
    ("google", {"layer_norm_eps": 1e-6}, "layer_norm_eps is 1e-06, expected 1e-12"),
    ("bright", {"layout": "bright", "num_hidden_groups": 2}, "num_hidden_groups is 2, expected 1"),
])
def test_what_cannot_be_expressed(dialect, changes, message):
    with pytest.raises(CheckpointError, match=message):
        export_weights(model(**changes), dialect)


def test_shared_parts_are_seen_without_a_config():
    built = model(share_type="attention")
    del built.config
    with pytest.raises(CheckpointError, match=r"groups \[1, 2, 3\] lack weights of group 0"):
        export_weights(built, "google")


@pytest.mark.parametrize("dialect", ["google", "bright", "huggingface", "predecessor",
                                     "predecessor_bright"])
@pytest.mark.parametrize("act", ["gelu_new", "relu"])
def test_config_out_and_in_again(dialect, act):
    layout = DIALECTS[dialect].layout
    ours = config(layout=layout, hidden_act=act, ln_type="preln" if layout == "bright" else
                  "postln", hidden_dropout_prob=0.2)
    settings = export_config(ours, dialect)
    assert settings["hidden_act"] == ("gelu" if act == "gelu_new" and dialect in (
        "google", "bright") else act)
    read = AlbertConfig.from_dict(json.loads(json.dumps(settings)),
                                  dialect=dialect.removesuffix("_bright"))
    assert read.replace(layout=layout) == ours


# ---- Hugging Face --------------------------------------------------------------------------------

SHAPES = [{}, {"embedding_size": 12}, {"num_hidden_groups": 2, "inner_group_num": 2},
          {"share_type": "none", "hidden_act": "gelu", "layer_norm_eps": 1e-5}]
OUTPUTS = {"AlbertModel": ("sequence_output", "last_hidden_state"),
           "AlbertForPreTraining": ("logits", "prediction_logits"),
           "AlbertForQuestionAnswering": ("end_logits", "end_logits")}


def assert_same_outputs(ours, theirs, head: str) -> None:
    generator = torch.Generator().manual_seed(5)
    shape = (2, 3, 9) if head == "AlbertForMultipleChoice" else (2, 9)
    ids = torch.randint(1, 31, shape, generator=generator)
    types = torch.randint(0, 2, shape, generator=generator)
    mask = torch.ones(shape, dtype=torch.long)
    mask[..., 6:] = torch.randint(0, 2, mask[..., 6:].shape, generator=generator)
    with torch.no_grad():
        a = ours(ids, attention_mask=mask, token_type_ids=types)
        b = theirs(ids, attention_mask=mask, token_type_ids=types)
    pairs = [OUTPUTS.get(head, ("logits", "logits"))]
    if head == "AlbertForPreTraining":
        pairs.append(("seq_relationship_logits", "sop_logits"))
    for mine, other in pairs:
        torch.testing.assert_close(getattr(a, mine), getattr(b, other), rtol=0, atol=1e-5)


@pytest.mark.parametrize("changes", SHAPES)
@pytest.mark.parametrize("head", HEADS)
def test_hugging_face_runs_our_weights(tmp_path, head, changes):
    pytest.importorskip("transformers")
    import transformers

    ours = model(head, num_labels=1 if head == "AlbertForMultipleChoice" else 3, **changes)
    save_file(export_weights(ours, "huggingface"), str(tmp_path / "model.safetensors"),
              metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(export_config(ours.config, "huggingface",
                                                                   head)))
    theirs, report = getattr(transformers, head).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["mismatched_keys"]
    assert set(report["unexpected_keys"]) <= {"albert.pooler.weight", "albert.pooler.bias"}
    assert_same_outputs(ours, theirs.eval(), head)


@pytest.mark.parametrize("changes", [{}, {"num_hidden_groups": 2, "inner_group_num": 2}])
@pytest.mark.parametrize("head", HEADS)
def test_we_run_hugging_face_weights(tmp_path, head, changes):
    pytest.importorskip("transformers")
    import transformers

    torch.manual_seed(0)
    settings = export_config(config(num_labels=3, **changes), "huggingface", head)
    settings["id2label"] = {"0": "no", "1": "maybe", "2": "yes"} if "Class" in head else None
    settings = {name: value for name, value in settings.items() if value is not None}
    theirs = getattr(transformers, head)(transformers.AlbertConfig(**settings)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0, 0.3)
    theirs.save_pretrained(tmp_path)
    ours = getattr(albert, head).from_pretrained(tmp_path)
    assert not [name for name in ours.load_report.new if "pooler" not in name]
    assert_same_outputs(ours, theirs, head)


def test_a_mapping_between_equal_widths():
    ours = model(embedding_size=12)
    tensors = export_weights(ours, "huggingface")
    name = "albert.encoder.embedding_hidden_mapping_in.weight"
    assert torch.equal(tensors[name], torch.eye(12))
    second = model(seed=1, embedding_size=12)
    report = load_weights(second, source(tensors))
    assert equal(ours, second) and report.skipped[name] == "maps every embedding to itself"
    tensors[name][0, 1] = 0.5
    with pytest.raises(CheckpointError, match=f"{name} changes the embeddings"):
        load_weights(second, source(tensors))


# ---- the script ----------------------------------------------------------------------------------


def convert(*flags: object) -> int:
    from convert_albert_tf_checkpoint_to_pytorch import main
    return main([str(flag) for flag in flags])


def outputs(folder: Path, head: str = "AlbertForPreTraining") -> dict[str, torch.Tensor]:
    arrays = {n: torch.from_numpy(a) for n, a in np.load(REFERENCE / "inputs.npz").items()}
    loaded = getattr(albert, head).from_pretrained(folder)
    with torch.no_grad():
        out = loaded(arrays["input_ids"].long(), arrays["input_mask"],
                     arrays["token_type_ids"].long())
    return {"pooled_output": out.pooled_output, "sequence_output": out.sequence_output}


@pytest.mark.parametrize("folder", [GOOGLE, BRIGHT])
def test_converted_directory(tmp_path, capsys, folder):
    target = tmp_path / "new" / "albert"
    assert convert("--tf_checkpoint_path", folder, "--pytorch_dump_path",
                   target / "pytorch_model.bin") == 0
    printed = capsys.readouterr().out
    assert "names a file; the whole model is written into its folder" in printed
    assert "skipped global_step" in printed and "no tokenizer found" in printed
    assert "used        32 tensors" in printed or folder == BRIGHT
    assert sorted(p.name for p in target.iterdir()) == ["config.json", "model.safetensors"]
    assert sorted(p.name for p in target.parent.iterdir()) == ["albert"]
    settings = json.loads((target / "config.json").read_text())
    assert settings["hidden_act"] == "gelu_new" and settings["layout"] == folder.name.split("_")[0]
    wanted = np.load(folder / "expected.npz")
    for name, value in outputs(target).items():
        np.testing.assert_allclose(value, wanted[name], rtol=0, atol=2e-5)


@pytest.mark.parametrize("folder", [GOOGLE, BRIGHT, REFERENCE / "finetuned_squad_v2"])
def test_back_to_tensorflow(tmp_path, folder):
    assert convert("--tf_checkpoint_path", folder, "--pytorch_dump_path", tmp_path / "a") == 0
    assert convert("--to_tf", "--pytorch_dump_path", tmp_path / "a",
                   "--tf_checkpoint_path", tmp_path / "tf" / "model.ckpt-7") == 0
    found, wanted = (dict(TensorFlowCheckpoint(path)) for path in (tmp_path / "tf", folder))
    assert found.pop("global_step") == 0
    assert all(np.array_equal(found[name], wanted[name]) for name in found)
    left = [name for name in wanted if name not in found]
    assert all(name.endswith(("adam_m", "adam_v", "global_step")) for name in left)
    assert AlbertConfig.from_pretrained(tmp_path / "tf") == AlbertConfig.from_pretrained(folder)
    assert json.loads((tmp_path / "tf" / "albert_config.json").read_text())["hidden_act"] == "gelu"


@pytest.mark.parametrize(("folder", "head", "flags"), [
    ("finetuned_race", "AlbertForMultipleChoice", []),
    ("finetuned_race", "AlbertForSequenceClassification", ["--head", "classification"]),
    ("finetuned_squad_v1", "AlbertForQuestionAnswering", ["--head", "squad"]),
    ("google_g1_hub", "AlbertForMaskedLM", []),
    ("google_g1_hub", "AlbertModel", ["--head", "model"]),
    ("google_g1_v1format", "AlbertForPreTraining", []),
    ("google_g4_unshared", "AlbertForPreTraining", [])])
def test_heads(tmp_path, capsys, folder, head, flags):
    path = shared(f"reference/{folder}")
    assert convert("--tf_checkpoint_path", path, "--pytorch_dump_path", tmp_path / "a", *flags) == 0
    assert f"wrote {head} to {tmp_path / 'a'}" in capsys.readouterr().out
    assert not getattr(albert, head).from_pretrained(tmp_path / "a").load_report.new


def test_the_predecessors_way_in_one_folder(tmp_path):
    folder = tmp_path / "albert"  # checkpoint, config.json and result in one place
    shutil.copytree(BRIGHT, folder)
    (folder / "albert_config.json").rename(folder / "config.json")
    before = (folder / "config.json").read_text()
    torch.save({"stale": torch.ones(1)}, folder / "pytorch_model.bin")
    flags = ["--tf_checkpoint_path", folder, "--bert_config_file", folder / "config.json",
             "--pytorch_dump_path", folder / "pytorch_model.bin", "--share_type", "all"]
    assert convert(*flags) == 0
    assert (folder / "config.json.original").read_text() == before
    assert AlbertConfig.from_pretrained(folder).layout == "bright"
    assert open_checkpoint(folder).dialect == "albert_pytorch"
    assert convert(*flags) == 1 and convert(*flags, "--overwrite") == 0
    assert (folder / "config.json.original").read_text() == before


@pytest.mark.parametrize("place", ["", "assets"])
def test_the_tokenizer_is_found_and_copied(tmp_path, place):
    vocab = Path(__file__).parent / "fixtures" / "tokenizer_chinese" / "vocab.txt"
    size = vocab.read_bytes().count(b"\n")
    checkpoint = tmp_path / "tf"
    built = model(vocab_size=size)
    write_tf_checkpoint(checkpoint / "variables" / "variables" if place else checkpoint / "x",
                        export_weights(built, "google"))
    (checkpoint / place).mkdir(exist_ok=True)
    (checkpoint / place / "albert_config.json").write_text(
        json.dumps(export_config(built.config, "google")))
    shutil.copyfile(vocab, checkpoint / place / "vocab.txt")
    assert convert("--tf_checkpoint_path", checkpoint, "--pytorch_dump_path", tmp_path / "a") == 0
    assert (tmp_path / "a" / "vocab.txt").read_bytes() == vocab.read_bytes()
    assert convert("--to_tf", "--tf_checkpoint_path", tmp_path / "back", "--pytorch_dump_path",
                   tmp_path / "a") == 0
    assert (tmp_path / "back" / "vocab.txt").read_bytes() == vocab.read_bytes()


def test_row_11_a_vocabulary_of_another_model(tmp_path, capsys):
    vocab = Path(__file__).parent / "fixtures" / "tokenizer_chinese" / "vocab.txt"
    assert convert("--tf_checkpoint_path", GOOGLE, "--pytorch_dump_path", tmp_path / "a",
                   "--vocab_file", vocab) == 1
    error = capsys.readouterr().err
    assert str(vocab) in error and "entries" in error and "vocab_size 120" in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("flags", "message"), [
    (["--tf_checkpoint_path", "nowhere/albert"], "nowhere/albert: no such checkpoint"),
    (["--bert_config_file", "missing.json"], "missing.json: no such config file")])
def test_errors_are_one_message_and_write_nothing(tmp_path, capsys, flags, message):
    assert convert("--tf_checkpoint_path", GOOGLE, "--pytorch_dump_path", tmp_path / "a",
                   *flags) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error
    assert not list(tmp_path.iterdir())


def test_a_crash_while_writing_leaves_nothing(tmp_path, monkeypatch):
    def crash(self, folder, tokenizer=None):
        (folder / "config.json").write_text("half")
        raise OSError("disk full")
    monkeypatch.setattr(albert.AlbertForPreTraining, "save_pretrained", crash)
    assert convert("--tf_checkpoint_path", GOOGLE, "--pytorch_dump_path", tmp_path / "a") == 1
    assert not list(tmp_path.iterdir())


def test_saved_names_are_those_of_the_parameters(tmp_path):
    assert convert("--tf_checkpoint_path", GOOGLE, "--pytorch_dump_path", tmp_path / "a") == 0
    names = set(load_file(str(tmp_path / "a" / "model.safetensors")))
    loaded = albert.AlbertForPreTraining.from_pretrained(GOOGLE)
    assert names == set(dict(loaded.named_parameters()))
