"""A model in the form that others run: Hugging Face's files, ONNX, ONNX with 8-bit weights.

Every function writes into a folder and holds what it wrote against the model; what differs by more
than it may is an `ExportError`, and the caller throws the folder away.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from model.config_export import export_config
from model.conversion import export_weights
from model.modeling_albert import (
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertModel,
    AlbertOutput,
)
from model.modeling_utils import AlbertPreTrainedModel

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OPSET = 20  # the newest that ONNX Runtime has had kernels for on every platform for a while
ONNX_NAME = "model.onnx"
SHAPES = ((1, 2), (1, 7), (3, 5), (2, 33), (5, 12))  # (batch, tokens) that an export is tried at
PACKAGES = "onnx onnxscript onnxruntime"


class ExportError(ValueError):
    """An export that is impossible, or that does not compute what the model does."""


class _Plain(nn.Module):
    """The model as a function of three tensors to a tuple, which is what graphs know."""

    def __init__(self, model: AlbertPreTrainedModel, outputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.outputs = model, outputs

    def forward(self, input_ids: Tensor, attention_mask: Tensor,
                token_type_ids: Tensor) -> tuple[Tensor, ...]:
        output: AlbertOutput = self.model(input_ids, attention_mask, token_type_ids)
        return tuple(getattr(output, name) for name in self.outputs)


def output_names(model: AlbertPreTrainedModel) -> tuple[str, ...]:
    """The outputs of a graph, by the names that they have in `AlbertOutput`."""
    if isinstance(model, AlbertForPreTraining):
        return "logits", "seq_relationship_logits"
    if isinstance(model, AlbertForQuestionAnswering):
        if model.config.squad_head == "v2":
            return ("start_top_log_probs", "start_top_index", "end_top_log_probs",
                    "end_top_index", "cls_logits")
        return "start_logits", "end_logits"
    if isinstance(model, AlbertModel):
        return "sequence_output", "pooled_output"
    return ("logits",)


def random_inputs(model: AlbertPreTrainedModel, rows: int, tokens: int, seed: int,
                  ) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and types (rows, tokens), with padding of random length at the end."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(model.config.vocab_size, (rows, tokens), generator=generator)
    lengths = torch.randint(1, tokens + 1, (rows, 1), generator=generator)
    lengths[0] = tokens
    types = torch.randint(model.config.type_vocab_size, (rows, tokens), generator=generator)
    return ids, (torch.arange(tokens) < lengths).long(), types


# ---- Hugging Face -------------------------------------------------------------------------------


def export_huggingface(model: AlbertPreTrainedModel, folder: Path, tokenizer: Any = None) -> None:
    """`config.json` and `model.safetensors` as transformers reads them, and the tokenizer.

    Raises ValueError for what Hugging Face's ALBERT cannot express (layout bright, preln, blocks
    that are shared in part).
    """
    config = export_config(model.config, "huggingface", type(model).__name__)
    weights = {name: torch.as_tensor(value).detach().cpu().contiguous().clone()
               for name, value in export_weights(model, "huggingface").items()}
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n",
                                        encoding="utf-8")
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    again = type(model).from_pretrained(folder)
    differences = [name for (name, ours), (_, theirs) in
                   zip(model.named_parameters(), again.named_parameters(), strict=True)
                   if not torch.equal(ours, theirs)]
    if differences:
        raise ExportError(f"{folder}: read back, these weights differ: {', '.join(differences)}")


# ---- ONNX ---------------------------------------------------------------------------------------


def export_onnx(model: AlbertPreTrainedModel, folder: Path, opset: int = OPSET,
                tolerance: float = 1e-4) -> float:
    """Write `model.onnx` with free batch and length; returns the largest difference found.

    Inputs are INPUTS, (batch, tokens) int64; outputs are `output_names(model)`. Shared weights are
    stored once. Raises `ExportError` above `tolerance`, and where packages are missing.
    """
    require_packages()
    model.eval()
    names = output_names(model)
    path = folder / ONNX_NAME
    with _quiet():
        program = torch.onnx.export(
            _Plain(model, names), random_inputs(model, 2, 7, seed=0), dynamo=True,
            opset_version=opset, input_names=list(INPUTS), output_names=list(names),
            dynamic_shapes=({0: "batch", 1: "tokens"},) * 3, verbose=False)
        program.save(str(path))
    difference = largest_difference(model, path)
    if not difference <= tolerance:
        raise ExportError(f"{path}: differs from the model by {difference:.2g}, more than "
                          f"--tolerance {tolerance:g}")
    return difference


def quantize_onnx(source: Path, folder: Path) -> Path:
    """`model.onnx` with the weights of matrix products as 8-bit integers, one scale a column.

    Activations are quantised as they come. The embedding table stays as it is.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    target = folder / ONNX_NAME
    with _quiet():
        graph = onnx.load(str(source))
        fold_transposes(graph.graph)
        quantize_dynamic(graph, str(target), per_channel=True, weight_type=QuantType.QInt8,
                         op_types_to_quantize=["MatMul", "Gemm"],
                         extra_options={"MatMulConstBOnly": True})
    return target


def fold_transposes(graph: Any) -> None:
    """Store weights as the products read them, (in, out): only constants are quantised.

    A layer's weight is transposed once a pass, twelve times in base; one stored transpose serves
    them all. A table that is read in other ways, too, keeps its own form.
    """
    from onnx import numpy_helper
    constants = {one.name: one for one in graph.initializer}
    transposed = [node for node in graph.node if node.op_type == "Transpose"
                  and node.input[0] in constants]
    folded = {node.input[0] for node in transposed}
    renamed = {}
    for name in folded:
        array = numpy_helper.to_array(constants[name])
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array.T),
                                                         f"{name}.transposed"))
    for node in transposed:
        renamed[node.output[0]] = f"{node.input[0]}.transposed"
        graph.node.remove(node)
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = renamed.get(name, name)
    read = {name for node in graph.node for name in node.input}
    for name in folded - read:
        graph.initializer.remove(constants[name])


def largest_difference(model: AlbertPreTrainedModel, path: Path) -> float:
    """Between the outputs of the model and of a graph, over SHAPES and the longest input."""
    longest = model.config.max_position_embeddings
    shapes = [(rows, tokens) for rows, tokens in SHAPES if tokens <= longest] + [(1, longest)]
    run = session(path)
    worst = 0.0
    for seed, (rows, tokens) in enumerate(shapes):
        inputs = random_inputs(model, rows, tokens, seed)
        for ours, theirs in zip(eager(model, inputs), run(inputs), strict=True):
            if ours.shape != theirs.shape:
                raise ExportError(f"{path}: at {rows} x {tokens} an output has the shape "
                                  f"{theirs.shape}, the model gives {ours.shape}")
            worst = max(worst, float(np.abs(ours.astype(float) - theirs.astype(float)).max()))
    return worst


def agreement(model: AlbertPreTrainedModel, path: Path, batches: Sequence[Sequence[Tensor]],
              ) -> tuple[float, float]:
    """(share of rows with the same best score, largest difference) of the first output."""
    run = session(path)
    same, worst = [], 0.0
    for inputs in batches:
        ours, theirs = eager(model, inputs)[0], run(inputs)[0]
        attended = np.ones(ours.shape[:-1], bool)
        if ours.ndim == 3:  # (B, T, …): padding has no answer
            attended = inputs[1].numpy().astype(bool)
        same.append((ours.argmax(-1) == theirs.argmax(-1))[attended])
        worst = max(worst, float(np.abs(ours - theirs)[attended].max()))
    return float(np.concatenate(same).mean()), worst


@torch.inference_mode()
def eager(model: AlbertPreTrainedModel, inputs: Sequence[Tensor]) -> list[np.ndarray]:
    return [value.numpy() for value in _Plain(model.eval(), output_names(model))(*inputs)]


def session(path: Path):
    """A graph as a function of three tensors to a list of arrays."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    loaded = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda inputs: loaded.run(None, {name: value.numpy() for name, value in
                                            zip(INPUTS, inputs, strict=True)})


def require_packages() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ExportError(f"ONNX needs the package {error.name}: pip install {PACKAGES}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's notes on packages and names that are none of the user's business."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "root", "")]
    levels = [one.level for one in loggers]
    try:
        for one in loggers:
            one.setLevel(logging.ERROR)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
