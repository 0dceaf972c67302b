"""Weights in and out: every dialect is read into our modules, and written from them.

    source = open_checkpoint("prev_trained_model/albert_base")   # any kind, nothing is read yet
    report = load_weights(model, source)                         # used, skipped, new

Every input is used or listed as skipped with a reason, every parameter is filled or listed as new,
shapes are equal; otherwise one `CheckpointError` lists all offenders, before anything is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from model.config_export import export_config
from model.tf_table import CheckpointError
from model.weight_names import (
    GROUP,
    Target,
    detect_dialect,
    from_model_names,
    plain_names,
    to_model_names,
    twins,
)
from model.weight_sources import WeightSource, open_checkpoint
from model.weight_tables import DIALECTS

__all__ = [
    "CheckpointError", "LoadReport", "WeightSource", "detect_dialect", "export_config",
    "export_weights", "from_model_names", "infer_architecture", "load_weights", "open_checkpoint",
    "to_model_names",
]

logger = logging.getLogger(__name__)

MAPPING = "bert.encoder.embedding_hidden_mapping_in."


@dataclass
class LoadReport:
    """What became of every input and every parameter."""

    used: dict[str, str] = field(default_factory=dict)  # parameter -> input
    skipped: dict[str, str] = field(default_factory=dict)  # input -> reason
    new: list[str] = field(default_factory=list)  # parameters that no input fills


# ---- loading -------------------------------------------------------------------------------------


@torch.no_grad()
def load_weights(model: nn.Module, source: WeightSource, ignore: Collection[str] = (),
                 ) -> LoadReport:
    """Fill the parameters of a model that carries our names.

    ignore: parameters to leave alone even where the source has them (a head to start anew).
    Raises `CheckpointError` (damage, shapes that differ, two inputs for one parameter), and then
    the model is as it was unless a tensor turned out damaged while it was read.
    """
    parameters = dict(model.named_parameters())  # each shared one once, under its first name
    shared = {name for name, _ in model.named_parameters(remove_duplicate=False)} - set(parameters)
    local = _local_names(parameters)
    report = LoadReport()
    chosen: dict[str, tuple[str, bool]] = {}  # parameter -> input, transposed
    for theirs, (name, transposed, reason) in _targets(source).items():
        name = local.get(name, name)
        if reason:
            report.skipped[theirs] = reason
        elif name not in parameters:
            report.skipped[theirs] = _why_not(source, theirs, name, shared)
        elif name in ignore:
            report.skipped[theirs] = "the head is started anew"
        elif name in chosen:
            raise CheckpointError(f"{source}: both {chosen[name][0]} and {theirs} are for {name}")
        else:
            chosen[name] = (theirs, transposed)
    _check_shapes(source, parameters, chosen)
    for name, (theirs, transposed) in chosen.items():
        value = as_tensor(source[theirs])
        parameters[name].copy_(value.t() if transposed else value)
        report.used[name] = theirs
    report.new = [name for name in parameters if name not in chosen]
    return report


def _local_names(parameters: Iterable[str]) -> dict[str, str]:
    """Full name -> name in this model, whose encoder may be the model itself."""
    parameters = list(parameters)
    if any(name.startswith("bert.") for name in parameters):
        return {name: name for name in parameters}
    return {plain: name for name, plain in plain_names(parameters, "albert_pytorch").items()}


def _targets(source: WeightSource) -> dict[str, tuple[str, bool, str]]:
    """Input -> (our name, transposed, "") or ("", False, reason why it is skipped)."""
    result = {}
    for theirs, target in to_model_names(source, source.dialect).items():
        if isinstance(target, Target):
            result[theirs] = (target.name, target.transposed, "")
        else:
            result[theirs] = ("", False, target)
    plain = {short: name for name, short in plain_names(source, source.dialect).items()}
    for copy, original, transposed in twins(source, source.dialect):
        if original not in plain:  # the copy stands in for the original
            target = to_model_names([original], source.dialect)[original]
            result[copy] = (target.name, target.transposed != transposed, "")
            continue
        value, first = as_tensor(source[copy]), as_tensor(source[plain[original]])
        equal = torch.equal(value.t() if transposed else value, first)
        result[copy] = ("", False, f"tied copy of {original}"
                        + ("" if equal else ", from which it differs"))
        if not equal:
            logger.warning("%s: %s differs from %s, to which it is tied; the latter is used",
                           source, copy, plain[original])
    return result


def _why_not(source: WeightSource, theirs: str, name: str, shared: Collection[str]) -> str:
    """Why an input that is a weight of some ALBERT fills no parameter of this one."""
    if name.startswith(MAPPING) and source.dialect == "huggingface":
        _check_identity(source, theirs)
        return "maps every embedding to itself"
    if name.startswith(MAPPING) and source.dialect.startswith("predecessor"):
        return "not used between equal widths"
    if name in shared:
        return f"this model shares {name} with an earlier layer"
    if name.startswith("bert."):
        return f"this model has no {name}"
    return f"head not in this model ({name})"


def _check_identity(source: WeightSource, theirs: str) -> None:
    """Hugging Face maps embeddings even where they are as wide as the layers, and we do not."""
    value = as_tensor(source[theirs]).float()
    identity = torch.eye(len(value)) if value.dim() == 2 else torch.zeros(len(value))
    if value.shape != identity.shape or not torch.equal(value, identity):
        raise CheckpointError(f"{source}: {theirs} changes the embeddings, but in this model they "
                              "are as wide as its layers and not mapped; found no way to keep it")


def _check_shapes(source: WeightSource, parameters: Mapping[str, Tensor],
                  chosen: Mapping[str, tuple[str, bool]]) -> None:
    wrong = []
    for name, (theirs, transposed) in chosen.items():
        shape = tuple(source.shape(theirs))
        if (shape[::-1] if transposed else shape) != tuple(parameters[name].shape):
            wrong.append(f"{theirs} {shape} for {name} {tuple(parameters[name].shape)}")
    if wrong:
        raise CheckpointError(f"{source}: {len(wrong)} shapes differ from the model's:\n  "
                              + "\n  ".join(wrong))


def as_tensor(value: np.ndarray | Tensor) -> Tensor:
    """A tensor of an input, which may be a read-only view of a file."""
    return value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))


# ---- writing -------------------------------------------------------------------------------------


@torch.no_grad()
def export_weights(model: nn.Module, dialect: str) -> dict[str, Any]:
    """The parameters of a model under the names and in the orientation of a dialect.

    TensorFlow dialects give NumPy arrays, the others tensors; both are copies.
    Raises `CheckpointError` for a model that the dialect cannot express.
    """
    local = _local_names(dict(model.named_parameters()))
    parameters = dict(model.named_parameters())
    _check_expressible(model, dialect, local)
    arrays = dialect in ("google", "bright")
    result: dict[str, Any] = {}
    for name, target in from_model_names(local, dialect).items():
        value = parameters[local[name]].detach().cpu()
        value = (value.t() if target.transposed else value).contiguous().clone()
        result[target.name] = value.float().numpy() if arrays else value
    if dialect == "huggingface" and not any(name.startswith(MAPPING) for name in local):
        width = parameters[local["bert.embeddings.word_embeddings.weight"]].shape[1]
        result["albert.encoder.embedding_hidden_mapping_in.weight"] = torch.eye(width)
        result["albert.encoder.embedding_hidden_mapping_in.bias"] = torch.zeros(width)
    return result


def _check_expressible(model: nn.Module, dialect: str, names: Collection[str]) -> None:
    config = getattr(model, "config", None)
    bright = "bert.embeddings.word_embeddings_2.weight" in names
    google = any(name.startswith(MAPPING) for name in names)
    layout = "bright" if bright else "google" if google else getattr(config, "layout", None)
    wanted = DIALECTS[dialect].layout if dialect in DIALECTS else None
    if wanted and layout and layout != wanted:
        raise CheckpointError(f"a model of layout {layout} cannot be written in the {dialect} "
                              f"dialect, which only has layout {wanted}")
    if config is not None and dialect != "albert_pytorch":
        export_config(config, dialect)


# ---- what weights prove --------------------------------------------------------------------------


def infer_architecture(source: WeightSource) -> dict[str, Any]:
    """The config fields that the names and shapes of a checkpoint prove; absent where they do not.

    Also "head": the key of `HEADS` (model/modeling_albert.py) that the head's weights make up.
    Raises `CheckpointError` as `detect_dialect`.
    """
    shapes = {}
    for theirs, (name, transposed, _) in _targets(source).items():
        if name:
            shape = tuple(source.shape(theirs))
            shapes[name] = shape[::-1] if transposed else shape
    layer = "bert.encoder.transformer.group.0.inner_group.0."
    dimensions = {
        "vocab_size": ("bert.embeddings.word_embeddings.weight", 0),
        "embedding_size": ("bert.embeddings.word_embeddings.weight", 1),
        "hidden_size": (layer + "attention.self.query.weight", 0),
        "intermediate_size": (layer + "intermediate.dense.weight", 0),
        "max_position_embeddings": ("bert.embeddings.position_embeddings.weight", 0),
        "type_vocab_size": ("bert.embeddings.token_type_embeddings.weight", 0),
        "num_labels": ("classifier.bias", 0),
    }
    proven: dict[str, Any] = {key: shapes[name][axis] for key, (name, axis) in dimensions.items()
                              if name in shapes and len(shapes[name]) > axis}
    layers = [match for match in map(GROUP.fullmatch, shapes) if match]
    if layers:
        proven["num_hidden_groups"] = 1 + max(int(match[1]) for match in layers)
        proven["inner_group_num"] = 1 + max(int(match[2].split(".")[1]) for match in layers)
    layout = DIALECTS[source.dialect].layout
    if "bert.embeddings.word_embeddings_2.weight" in shapes:
        layout = "bright"
    elif MAPPING + "weight" in shapes:
        layout = "google"
    if layout:
        proven["layout"] = layout
    if "start_logits.dense.weight" in shapes or "qa_outputs.weight" in shapes:
        proven["squad_head"] = "v2" if "start_logits.dense.weight" in shapes else "v1"
    proven["head"] = _head(shapes)
    return proven


def _head(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The task of a checkpoint; a fine-tuned head wins over those of pretraining."""
    if "start_logits.dense.weight" in shapes or "qa_outputs.weight" in shapes:
        return "question_answering"
    if "classifiers.0.weight" in shapes:
        return "multitask"
    if "classifier.weight" in shapes:
        return "multiple_choice" if shapes["classifier.weight"][0] == 1 else "classification"
    if "cls.predictions.bias" in shapes:
        return "pretraining" if "cls.seq_relationship.weight" in shapes else "masked_lm"
    return "model"
