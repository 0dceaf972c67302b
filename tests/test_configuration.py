"""Configurations: dialects keep their meaning, presets their sizes, errors tell all."""

import json

import pytest

from model.configuration_albert import (
    PRESETS,
    AlbertConfig,
    ConfigError,
    detect_config_dialect,
    find_config,
)
from model.modeling_albert import AlbertModel

GOOGLE = {"vocab_size": 120, "embedding_size": 16, "hidden_size": 32, "num_hidden_layers": 4,
          "num_hidden_groups": 1, "num_attention_heads": 4, "intermediate_size": 64,
          "inner_group_num": 1, "down_scale_factor": 1, "hidden_act": "gelu",
          "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
          "max_position_embeddings": 64, "type_vocab_size": 2, "initializer_range": 0.02,
          "net_structure_type": 0, "gap_size": 0, "num_memory_blocks": 0}
BRIGHT = {k: v for k, v in GOOGLE.items() if k not in ("num_hidden_groups", "inner_group_num")} | {
    "directionality": "bidi", "pooler_type": "first_token_transform", "ln_type": "preln"}

# parameters of the encoder with pooler, as published
PUBLISHED = {
    "base_v1": 11_683_584, "base_v2": 11_683_584, "large_v1": 17_683_968, "large_v2": 17_683_968,
    "xlarge_v1": 58_724_864, "xlarge_v2": 58_724_864, "xxlarge_v1": 222_595_584,
    "xxlarge_v2": 222_595_584, "zh_tiny": 4_080_520, "zh_small": 4_742_272,
    "zh_base": 10_547_968, "zh_large": 16_548_352, "zh_xlarge": 57_589_248,
    "zh_xxlarge": 221_459_968,
}


def count(config: AlbertConfig) -> int:
    import torch
    with torch.device("meta"):
        return AlbertModel(config).num_parameters()


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_the_published_ones(name):
    assert count(AlbertConfig.from_preset(name)) == PUBLISHED[name]


def test_bert_is_albert_without_sharing_and_factorisation():
    config = AlbertConfig(vocab_size=30522, embedding_size=768, share_type="none")
    assert count(config) == 109_482_240


def test_bright_presets_add_wide_positions_to_the_google_ones():
    for size in ("tiny", "small", "base", "large", "xlarge", "xxlarge"):
        config = AlbertConfig.from_preset(f"bright_{size}")
        wider = (512 + 2 + 2) * (config.hidden_size - 128) - config.hidden_size  # no mapping bias
        assert count(config) - count(AlbertConfig.from_preset(f"zh_{size}")) == wider
    assert AlbertConfig.from_preset("bright_xxlarge").ln_type == "preln"


def test_dropout_of_v1_and_v2_and_of_the_classifier():
    assert AlbertConfig.from_preset("base_v1").hidden_dropout_prob == 0.1
    assert AlbertConfig.from_preset("xxlarge_v1").hidden_dropout_prob == 0.0
    v2 = AlbertConfig.from_preset("base_v2")
    assert (v2.hidden_dropout_prob, v2.attention_probs_dropout_prob) == (0.0, 0.0)
    assert v2.classifier_dropout_prob == 0.1


def test_gelu_keeps_the_meaning_of_its_dialect():
    assert AlbertConfig.from_dict(GOOGLE).hidden_act == "gelu_new"
    assert AlbertConfig.from_dict(BRIGHT).hidden_act == "gelu_new"
    assert AlbertConfig.from_dict(GOOGLE | {"model_type": "albert"}).hidden_act == "gelu"
    assert AlbertConfig.from_dict(GOOGLE | {"share_type": "all"}).hidden_act == "gelu"
    assert AlbertConfig.from_dict(GOOGLE | {"share_type": "all", "hidden_act": "gelu_new"}
                                  ).hidden_act == "gelu_new"
    own = AlbertConfig(hidden_act="gelu")
    assert AlbertConfig.from_dict(own.to_dict()).hidden_act == "gelu"


def test_dialects_are_told_from_the_keys():
    assert detect_config_dialect(GOOGLE) == "google"
    assert detect_config_dialect(BRIGHT) == "bright"
    assert detect_config_dialect(AlbertConfig().to_dict()) == "albert_pytorch"
    assert detect_config_dialect({"finetuning_task": None} | BRIGHT) == "predecessor"
    bright = AlbertConfig.from_dict(BRIGHT)
    assert (bright.layout, bright.ln_type) == ("bright", "preln")
    assert AlbertConfig.from_dict({k: v for k, v in BRIGHT.items() if k != "ln_type"}
                                  ).ln_type == "postln"
    assert AlbertConfig.from_dict(GOOGLE, dialect="predecessor").hidden_act == "gelu"


def test_huggingface_labels_and_defaults():
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AlbertConfig(id2label={0: "no", 1: "yes", 2: "maybe"})
    ours = AlbertConfig.from_dict(theirs.to_dict())
    assert ours.id2label == ["no", "yes", "maybe"] and ours.num_labels == 3
    assert ours.label2id == {"no": 0, "yes": 1, "maybe": 2}
    assert (ours.hidden_size, ours.num_attention_heads) == (4096, 64)
    unnamed = AlbertConfig.from_dict(transformers.AlbertConfig(num_labels=5).to_dict())
    assert unnamed.id2label is None and unnamed.num_labels == 5


def test_round_trip_through_a_directory(tmp_path):
    config = AlbertConfig.from_preset("zh_tiny", id2label=["不", "是"], share_type="ffn")
    config.save_pretrained(tmp_path)
    assert AlbertConfig.from_pretrained(tmp_path) == config


def test_all_problems_are_named_at_once():
    with pytest.raises(ConfigError) as error:
        AlbertConfig(hidden_size=30, num_attention_heads=4, num_hidden_groups=13, vocab_size=0,
                     hidden_act="gelú", layout="huge", hidden_dropout_prob=1.5)
    for part in ("hidden_size 30", "num_hidden_groups 13", "vocab_size is 0", "gelú", "huge",
                 "hidden_dropout_prob is 1.5"):
        assert part in str(error.value)


def test_wrong_types_and_unknown_settings():
    with pytest.raises(ConfigError, match="hidden_size is '768'"):
        AlbertConfig(hidden_size="768")
    with pytest.raises(ConfigError, match="hiden_size.*did you mean hidden_size"):
        AlbertConfig().replace(hiden_size=3)
    with pytest.raises(ConfigError, match="names a label twice"):
        AlbertConfig(id2label=["a", "a"])
    with pytest.raises(ConfigError, match="base_v3.*base_v2"):
        AlbertConfig.from_preset("base_v3")


def test_a_bert_config_is_told(tmp_path):
    (tmp_path / "bert_config.json").write_text(json.dumps(
        {k: v for k, v in GOOGLE.items() if k != "embedding_size"}))
    with pytest.raises(ConfigError, match="bert_config.json.*not factorised"):
        AlbertConfig.from_pretrained(tmp_path)


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(ConfigError, match="expected one of config.json"):
        find_config(tmp_path)
    bad = tmp_path / "config.json"
    for content in (b"{", b"\xff\xfe", b"[1]"):
        bad.write_bytes(content)
        with pytest.raises(ConfigError, match="config.json"):
            AlbertConfig.from_pretrained(tmp_path)


def test_every_preset_builds():
    for name in PRESETS:
        AlbertConfig.from_preset(name)


def test_changing_the_number_of_labels_drops_old_names():
    config = AlbertConfig(id2label=["a", "b"]).replace(num_labels=3)
    assert config.num_labels == 3 and config.id2label is None
