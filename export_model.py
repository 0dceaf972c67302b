"""Export a model directory: Hugging Face's layout, ONNX, or ONNX with 8-bit weights.

    python export_model.py --model_name_or_path outputs/sst-2 --format onnx --output_dir shipped

What is written is held against the model first; an export that differs is not kept.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from callback.checkpoint import write_directory
from model.configuration_albert import ConfigError
from model.conversion import CheckpointError, infer_architecture, open_checkpoint
from model.exporting import (
    ONNX_NAME,
    OPSET,
    ExportError,
    agreement,
    export_huggingface,
    export_onnx,
    output_names,
    quantize_onnx,
    random_inputs,
    require_packages,
)
from model.modeling_albert import HEADS
from model.modeling_utils import AlbertPreTrainedModel, WeightsError
from model.tokenization_albert import AlbertTokenizer, TokenizerError
from tools.arguments import flag, parse
from tools.logging import start_logging

logger = logging.getLogger(__name__)

FORMATS = ("huggingface", "onnx", "onnx_int8")
EXPECTED_ERRORS = (CheckpointError, ConfigError, ExportError, FileNotFoundError, TokenizerError,
                   WeightsError)


@dataclass
class ExportSettings:
    """All flags of this front door."""

    model_name_or_path: str = flag("model directory, or any checkpoint that can be read")
    format: str = flag("what to write", choices=FORMATS)
    output_dir: Path = flag("folder to write")
    overwrite_output_dir: bool = flag("replace output_dir", False)
    opset: int = flag("version of ONNX's operators", OPSET)
    tolerance: float = flag("onnx: largest difference from the model", 1e-4)
    min_agreement: float = flag("onnx_int8: least share of inputs with the model's own answer",
                                0.95)
    check_file: Path | None = flag("onnx_int8: texts to compare on, one a line (default: random "
                                   "ids, which are harder)", None)

    def problems(self) -> list[str]:
        found = []
        if self.output_dir and self.output_dir.exists() and not self.overwrite_output_dir:
            if not self.output_dir.is_dir() or any(self.output_dir.iterdir()):
                found.append(f"--output_dir {self.output_dir} exists and is not empty: give "
                             "another, or --overwrite_output_dir")
        if self.check_file is not None and not self.check_file.is_file():
            found.append(f"--check_file {self.check_file}: no such file")
        return found


def load(path: str) -> AlbertPreTrainedModel:
    """A model of the class whose head the weights have."""
    source = open_checkpoint(path)
    return HEADS[infer_architecture(source).get("head", "model")].from_pretrained(source)


def tokenizer_beside(path: str) -> AlbertTokenizer | None:
    """The tokenizer of a model directory, if it has one."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    try:
        return AlbertTokenizer.from_pretrained(folder)
    except TokenizerError as error:
        logger.warning("no tokenizer goes with the export: %s", error)
        return None


def export(settings: ExportSettings) -> None:
    """Run an export. Raises one of EXPECTED_ERRORS, and then output_dir is as it was."""
    if settings.format != "huggingface":
        require_packages()
    model, tokenizer = load(settings.model_name_or_path), tokenizer_beside(
        settings.model_name_or_path)

    def fill(folder: Path) -> None:
        if settings.format == "huggingface":
            export_huggingface(model, folder, tokenizer)
            return
        model.config.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        if settings.format == "onnx":
            difference = export_onnx(model, folder, settings.opset, settings.tolerance)
            logger.info("differs from the model by %.1e at most", difference)
            return
        with tempfile.TemporaryDirectory() as exact:
            export_onnx(model, Path(exact), settings.opset, settings.tolerance)
            path = quantize_onnx(Path(exact) / ONNX_NAME, folder)
        same, difference = agreement(model, path, check_batches(settings, model, tokenizer))
        logger.info("same answer as the model for %.1f%%; scores differ by %.2g at most",
                    100 * same, difference)
        if same < settings.min_agreement:
            raise ExportError(f"{settings.output_dir}: only {same:.1%} of the answers are the "
                              f"model's, less than --min_agreement {settings.min_agreement:g}")

    write_directory(settings.output_dir, fill)
    size = sum(p.stat().st_size for p in settings.output_dir.iterdir())
    logger.info("%s (%s) -> %s, %.1f MB", type(model).__name__, ", ".join(output_names(model)),
                settings.output_dir, size / 1e6)


def check_batches(settings: ExportSettings, model: AlbertPreTrainedModel,
                  tokenizer: AlbertTokenizer | None) -> list[Sequence[Tensor]]:
    """Inputs to compare the quantised model on."""
    length = min(128, model.config.max_position_embeddings)
    if settings.check_file is None:
        return [random_inputs(model, 8, length, seed) for seed in range(4)]
    if tokenizer is None:
        raise ExportError("--check_file needs the model's tokenizer, which is not in its folder")
    texts = [t for t in settings.check_file.read_text(encoding="utf-8").splitlines() if t.strip()]
    if not texts:
        raise ExportError(f"--check_file {settings.check_file}: no text in it")
    encoding = tokenizer(texts, max_length=length)
    return [tuple(torch.tensor([row]) for row in (ids, [1] * len(ids), types))
            for ids, types in zip(encoding.input_ids, encoding.token_type_ids, strict=True)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 after one message that says what is wrong."""
    settings = parse(ExportSettings, __doc__, arguments)
    start_logging()
    try:
        export(settings)
    except EXPECTED_ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
