"""Our settings as the config file of another dialect has them."""

from __future__ import annotations

from typing import Any

from model.configuration_albert import AlbertConfig
from model.tf_table import CheckpointError

# What a config of another dialect cannot say, because the code there has it built in.
FIXED = {
    "google": {"ln_type": ("postln",), "layer_norm_eps": (1e-12,), "share_type": ("all", "none"),
               "hidden_act": ("gelu_new", "relu", "tanh")},
    "bright": {"layer_norm_eps": (1e-12,), "share_type": ("all", "none"), "inner_group_num": (1,),
               "hidden_act": ("gelu_new", "relu", "tanh")},
    "predecessor": {"ln_type": ("postln",)},
    "predecessor_norms_from_1": {"ln_type": ("postln",)},
    "predecessor_bright": {"inner_group_num": (1,)},
    "huggingface": {"ln_type": ("postln",), "share_type": ("all", "none"),
                    "hidden_act": ("gelu_new", "gelu", "relu", "silu", "tanh")},
}
SIZES = ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_hidden_groups",
         "inner_group_num", "num_attention_heads", "intermediate_size", "hidden_act",
         "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings",
         "type_vocab_size", "initializer_range")
ADDED = {  # settings that code there asks for and that mean nothing here
    "google": {"down_scale_factor": 1, "net_structure_type": 0, "gap_size": 0,
               "num_memory_blocks": 0},
    "bright": {"directionality": "bidi", "pooler_type": "first_token_transform"},
    "huggingface": {"model_type": "albert", "bos_token_id": 2, "eos_token_id": 3},
}


def export_config(config: AlbertConfig, dialect: str, architecture: str | None = None,
                  ) -> dict[str, Any]:
    """The settings of an `AlbertConfig` as a JSON file of another dialect has them.

    architecture: name of the model class, which Hugging Face's config carries.
    Raises `CheckpointError` that lists the settings that the dialect cannot express.
    """
    wrong = [f"{name} is {getattr(config, name)!r}, expected {' or '.join(map(repr, allowed))}"
             for name, allowed in FIXED.get(dialect, {}).items()
             if getattr(config, name) not in allowed]
    groups = config.num_hidden_groups if config.share_type == "all" else config.num_hidden_layers
    if dialect in ("bright", "predecessor_bright") and groups not in (1, config.num_hidden_layers):
        wrong.append(f"num_hidden_groups is {groups}, expected 1 or as many as there are layers")
    if wrong:
        raise CheckpointError(f"the {dialect} dialect cannot express this model: "
                              + "; ".join(wrong))
    settings = {name: getattr(config, name) for name in SIZES} | ADDED.get(dialect, {})
    settings["num_hidden_groups"] = groups
    if dialect in ("google", "bright"):  # where gelu means the tanh approximation
        settings["hidden_act"] = {"gelu_new": "gelu"}.get(config.hidden_act, config.hidden_act)
    if dialect in ("bright", "predecessor_bright"):
        settings["ln_type"] = config.ln_type
    if dialect.startswith("predecessor"):
        settings |= {"layer_norm_eps": config.layer_norm_eps, "share_type": config.share_type}
    if dialect == "huggingface":
        settings |= {"layer_norm_eps": config.layer_norm_eps, "pad_token_id": config.pad_token_id,
                     "classifier_dropout_prob": config.classifier_dropout_prob}
        settings |= _huggingface_labels(config, architecture)
    return settings


def _huggingface_labels(config: AlbertConfig, architecture: str | None) -> dict[str, Any]:
    count = config.num_labels
    if architecture in ("AlbertForPreTraining", "AlbertForQuestionAnswering"):
        count = 2  # their own outputs are sized by it: order, and start and end
    names = config.id2label if config.id2label and len(config.id2label) == count else [
        f"LABEL_{i}" for i in range(count)]
    labels: dict[str, Any] = {"id2label": {str(i): name for i, name in enumerate(names)},
                              "label2id": {name: i for i, name in enumerate(names)}}
    if architecture:
        labels["architectures"] = [architecture]
    if architecture == "AlbertForSequenceClassification":
        labels["problem_type"] = ("regression" if config.is_regression
                                  else "single_label_classification")
    return labels
