"""What every ALBERT class shares: initial weights, loading, saving, resizing."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from model.configuration_albert import AlbertConfig, ConfigError, find_config
from model.conversion import (
    LoadReport,
    WeightSource,
    infer_architecture,
    load_weights,
    open_checkpoint,
)

logger = logging.getLogger(__name__)

WEIGHTS_NAME = "model.safetensors"
Model = TypeVar("Model", bound="AlbertPreTrainedModel")


class WeightsError(ValueError):
    """A checkpoint that does not belong to the config or class that it is loaded into."""


class AlbertPreTrainedModel(nn.Module):
    """Base of all models: a config, initial weights, `from_pretrained` and `save_pretrained`."""

    base_prefix = ""  # what the encoder's weight names begin with in this class
    load_report: LoadReport | None = None  # what from_pretrained used, skipped and left new

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.config = config

    # ---- weights that are not loaded ---------------------------------------------------------

    def initialize(self, names: set[str] | None = None) -> None:
        """Give the parameters (all, or the named ones) their initial values, as official.

        Matrices: normal with deviation `initializer_range`, cut off at two deviations; LayerNorm
        weights 1; biases 0.
        """
        for name, parameter in self.named_parameters():
            if (names is None or name in names) and not parameter.is_meta:
                initialize_parameter(name, parameter, self.config.initializer_range)

    # ---- reading and writing -----------------------------------------------------------------

    @classmethod
    def from_pretrained(cls: type[Model], path: str | Path, config: AlbertConfig | None = None,
                        new_head: bool = False, **overrides: Any) -> Model:
        """Load a model from any ALBERT checkpoint.

        path: a directory of this library, of its predecessor or of Hugging Face, or a TensorFlow
        checkpoint in any layout (see `model.conversion.open_checkpoint`).
        config: used instead of the one that lies beside the weights.
        new_head: start the task head anew even where the checkpoint has one.
        overrides: config settings to change, such as num_labels=3.

        The model is in evaluation mode; `load_report` says what was used, skipped and is new, and
        a new head is warned of. Raises FileNotFoundError, `ConfigError` (config unreadable or at
        odds with the weights) or `WeightsError` (encoder weights missing).
        """
        source = open_checkpoint(path)
        config = settle_config(source, config, overrides, new_head)
        with torch.device("meta"):  # no time spent on initial values that are overwritten
            model = cls(config)
        model.to_empty(device="cpu")
        report = load_weights(model, source, ignore=model.head_names() if new_head else ())
        model.initialize(set(report.new))
        model.load_report = report
        model._judge(report, source)
        return model.eval()

    def save_pretrained(self, directory: str | Path, tokenizer: Any = None) -> None:
        """Write `config.json`, `model.safetensors` and the tokenizer's files into a directory.

        Every weight is written once, under its first name, whatever shares it.
        """
        directory = Path(directory)
        self.config.save_pretrained(directory)
        weights = {name: p.detach().cpu().contiguous() for name, p in self.named_parameters()}
        save_file(weights, str(directory / WEIGHTS_NAME), metadata={"format": "pt"})
        umask = os.umask(0)
        os.umask(umask)
        (directory / WEIGHTS_NAME).chmod(0o666 & ~umask)  # safetensors leaves it to the owner alone
        if tokenizer is not None:
            tokenizer.save_pretrained(directory)

    def head_names(self) -> set[str]:
        """The parameters that are not the encoder's."""
        return {name for name, _ in self.named_parameters()
                if not name.startswith(self.base_prefix)}

    def _judge(self, report: LoadReport, source: WeightSource) -> None:
        missing = [name for name in report.new
                   if name.startswith(self.base_prefix) and ".pooler." not in f".{name}"]
        if missing:
            raise WeightsError(
                f"{source}: {len(missing)} encoder weights are missing, such as "
                f"{', '.join(missing[:5])}; found {len(report.used)} of "
                f"{len(report.used) + len(report.new)}. Is it the checkpoint of this config?")
        if report.new:
            logger.warning("%s: newly initialised, not in the checkpoint: %s. Train before you "
                           "trust what they predict.", type(self).__name__, ", ".join(report.new))

    # ---- changing ----------------------------------------------------------------------------

    def resize_token_embeddings(self, vocab_size: int) -> None:
        """Cut or lengthen the vocabulary; old words keep their weights, new ones start anew."""
        for module in list(self.modules()):
            if hasattr(module, "word_embeddings"):
                module.word_embeddings = nn.Embedding.from_pretrained(
                    self._resized("weight", module.word_embeddings.weight, vocab_size),
                    freeze=False)
            if hasattr(module, "transform") and hasattr(module, "bias"):  # the MLM head
                module.bias = nn.Parameter(self._resized("bias", module.bias, vocab_size))
        for module in self.modules():
            if isinstance(module, AlbertPreTrainedModel):
                module.config = self.config.replace(vocab_size=vocab_size)

    def _resized(self, name: str, old: Tensor, size: int) -> Tensor:
        new = old.new_empty(size, *old.shape[1:])
        initialize_parameter(name, new, self.config.initializer_range)
        kept = min(size, len(old))
        new[:kept] = old.detach()[:kept]
        return new

    def set_activation_checkpointing(self, on: bool = True) -> None:
        """Trade time for memory: keep a layer's input only, compute the rest again backward."""
        for module in self.modules():
            if hasattr(module, "checkpoint_activations"):
                module.checkpoint_activations = on

    def num_parameters(self, trainable_only: bool = False) -> int:
        """Parameters, each shared one counted once."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad or not trainable_only)

    # ---- losses ------------------------------------------------------------------------------

    def loss_weights(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weight of each part of the loss in a batch, by the names of `output.losses`."""
        raise NotImplementedError(f"{type(self).__name__} has no loss")


@torch.no_grad()
def initialize_parameter(name: str, parameter: Tensor, std: float) -> None:
    """Fill one parameter by its kind, which its name and number of dimensions tell."""
    if parameter.dim() >= 2:
        nn.init.trunc_normal_(parameter, std=std, a=-2 * std, b=2 * std)
    elif name.endswith("LayerNorm.weight"):
        parameter.fill_(1.0)
    else:
        parameter.zero_()


def settle_config(source: WeightSource, config: AlbertConfig | None, overrides: Mapping[str, Any],
                  new_head: bool) -> AlbertConfig:
    """The config of a checkpoint, held against what its weights prove.

    Weights settle what the config leaves open (layout, labels of a fine-tuned head); where the
    two disagree, `ConfigError` lists both sides.
    """
    proven = infer_architecture(source)
    config = config or AlbertConfig.from_json_file(config_beside(source))
    changes = dict(overrides)
    if proven.get("layout", config.layout) != config.layout:
        logger.info("%s: the weights are in %s layout, the config says %s; the weights are right",
                    source, proven["layout"], config.layout)
        changes["layout"] = proven["layout"]
        if proven["layout"] == "bright" and "ln_type" not in overrides:
            logger.warning("%s: the config says nothing of ln_type, which the weights do not tell; "
                           "%s is assumed", source, config.ln_type)
    if not new_head:
        if not {"num_labels", "id2label"} & set(overrides) and config.id2label is None:
            changes["num_labels"] = proven.get("num_labels", config.num_labels)
        changes.setdefault("squad_head", proven.get("squad_head", config.squad_head))
    config = config.replace(**changes)
    sizes = ["vocab_size", "embedding_size", "hidden_size", "intermediate_size",
             "max_position_embeddings", "type_vocab_size", "inner_group_num"]
    if config.share_type == "all":  # otherwise every layer has a group of its own
        sizes.append("num_hidden_groups")
    wrong = [f"{name}: config {getattr(config, name)}, weights {proven[name]}" for name in sizes
             if name in proven and proven[name] != getattr(config, name)]
    if wrong:
        raise ConfigError(f"{source}: config and weights disagree:\n  " + "\n  ".join(wrong)
                          + "\nUse the config that was published with this checkpoint.")
    return config


def config_beside(source: WeightSource) -> Path:
    """The config file of a checkpoint. Raises `ConfigError` that names where it was looked for."""
    for directory in source.directories:
        try:
            return find_config(directory)
        except ConfigError:
            continue
    raise ConfigError(f"{source}: no config beside the weights; looked for config.json and "
                      f"albert_config.json in {', '.join(map(str, source.directories))}")
