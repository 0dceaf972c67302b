"""The two sides of every measurement: this library and Hugging Face transformers, same weights."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from model.configuration_albert import AlbertConfig
from model.modeling_albert import AlbertForPreTraining, AlbertForSequenceClassification

ROOT = Path(__file__).resolve().parent.parent
DTYPES = {"fp32": None, "bf16": torch.bfloat16}
MASKED = 0.15
TOLERANCE = 1e-3  # of the largest output, both sides in fp32
BATCH = 32
Batch = dict[str, torch.Tensor]


def base_config(**changes: Any) -> AlbertConfig:
    return AlbertConfig.from_preset("base_v2", **changes)


def theirs(model: Any, name: str) -> Any:
    """The same model in transformers, read from our export."""
    import transformers

    from model.exporting import export_huggingface
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        export_huggingface(model, Path(folder))
        found = getattr(transformers, name).from_pretrained(folder, attn_implementation="sdpa")
    return found


def same(one: torch.Tensor, other: torch.Tensor) -> None:
    difference = (one - other).abs().max() / one.abs().max()
    if not difference < TOLERANCE:
        raise SystemExit(f"the two sides differ by {difference:.2g}: nothing to compare")


# ---- pretraining ---------------------------------------------------------------------------------


def pretraining_batches(config: AlbertConfig, rows: int, length: int) -> tuple[Batch, Batch]:
    """A batch for each side: full sequences, 15% of the tokens to predict."""
    rng = torch.Generator().manual_seed(0)
    ids = torch.randint(5, config.vocab_size, (rows, length), generator=rng)
    mask, types = torch.ones_like(ids), (torch.arange(length) > length // 2).long().expand_as(ids)
    count = round(MASKED * length)
    positions = torch.stack([torch.randperm(length, generator=rng)[:count].sort().values
                             for _ in range(rows)])
    targets = torch.randint(5, config.vocab_size, (rows, count), generator=rng)
    order = torch.randint(2, (rows,), generator=rng)
    common = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    labels = torch.full_like(ids, -100).scatter(1, positions, targets)
    return (common | {"masked_lm_positions": positions, "masked_lm_ids": targets,
                      "masked_lm_weights": torch.ones_like(targets, dtype=torch.float32),
                      "sentence_order_labels": order},
            common | {"labels": labels, "sentence_order_label": order})


def train_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, precision: str,
               batch: Batch) -> None:
    with torch.autocast("cpu", DTYPES[precision], enabled=DTYPES[precision] is not None):
        loss = model(**batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def stepper(model: torch.nn.Module, precision: str) -> Callable[[Batch], None]:
    model.train()
    return partial(train_step, model, torch.optim.AdamW(model.parameters(), 1e-4), precision)


def pretraining_steps(precision: str, rows: int, length: int) -> dict[str, Callable[[], Any]]:
    torch.manual_seed(0)
    ours = AlbertForPreTraining(base_config())
    other = theirs(ours, "AlbertForPreTraining")
    own_batch, other_batch = pretraining_batches(ours.config, rows, length)
    with torch.no_grad():
        same(ours(**own_batch).loss, other(**other_batch).loss)
    return {"ours": partial(stepper(ours, precision), own_batch),
            "transformers": partial(stepper(other, precision), other_batch)}


def memory_of_a_step(what: str, side: str, precision: str, rows: int, length: int) -> float:
    """GB that two steps take above the loaded model."""
    step = pretraining_steps(precision, rows, length)[side]
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of loading
    before = resident("VmRSS")
    for _ in range(2):
        step()
    return (resident("VmHWM") - before) / 1e9


def resident(name: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def first_step(side: str, rows: int, length: int) -> None:
    """What a process does from nothing: build a base model and take one step."""
    torch.manual_seed(0)
    config = base_config()
    own_batch, other_batch = pretraining_batches(config, rows, length)
    if side == "ours":
        stepper(AlbertForPreTraining(config), "fp32")(own_batch)
        return
    import transformers
    model = transformers.AlbertForPreTraining(transformers.AlbertConfig(
        hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_hidden_layers=12))
    stepper(model, "fp32")(other_batch)


# ---- classification ------------------------------------------------------------------------------


def random_texts(lengths: np.ndarray) -> list[list[int]]:
    rng = np.random.default_rng(1)
    return [[2, *rng.integers(5, 30000, size - 2).tolist(), 3] for size in lengths]


def padded(texts: list[list[int]], labels: bool) -> Batch:
    """(B, T) of the longest text."""
    width = max(map(len, texts))
    ids = torch.tensor([text + [0] * (width - len(text)) for text in texts])
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long(),
             "token_type_ids": torch.zeros_like(ids)}
    return batch | ({"labels": torch.arange(len(texts)) % 2} if labels else {})


def classifiers() -> tuple[Any, Any]:
    torch.manual_seed(0)
    ours = AlbertForSequenceClassification(base_config(num_labels=2))
    other = theirs(ours, "AlbertForSequenceClassification")
    batch = padded(random_texts(np.array([9, 30, 17])), labels=False)
    with torch.no_grad():
        same(ours.eval()(**batch).logits, other.eval()(**batch).logits)
    return ours, other


def finetuning_steps(precision: str, lengths: np.ndarray, batches: int,
                     ) -> tuple[dict[str, Callable[[], Any]], int]:
    """Some steps of each side, and the examples in them.

    Ours takes batches out of the plan that fine-tuning uses, evenly over short and long ones, so
    that both sides read texts of the same mean length.
    """
    from callback.plan import LengthGroupedPlan
    ours, other = classifiers()
    texts = random_texts(lengths)
    plan = LengthGroupedPlan(lengths, BATCH, seed=0).epoch(0)
    by_length = sorted((b for b in plan if len(b) == BATCH), key=lambda b: lengths[b].sum())
    middles = [by_length[int((i + 0.5) * len(by_length) / batches)] for i in range(batches)]
    order = np.random.default_rng(0).permutation(len(texts))[:batches * BATCH].reshape(batches, -1)

    def work(model: Any, chosen: Any) -> Callable[[], None]:
        step = stepper(model, precision)
        ready = [padded([texts[i] for i in batch], labels=True) for batch in chosen]
        return lambda: [step(batch) for batch in ready]

    return {"ours": work(ours, middles), "transformers": work(other, order)}, batches * BATCH


def predictors(lengths: np.ndarray, folder: Path) -> dict[str, Callable[[], Any]]:
    """Every way to classify the same texts. Ours sorts by length, theirs takes them as they come
    and pads to the longest of a batch; the last rows are ONNX Runtime on our graphs."""
    from model.exporting import INPUTS, export_onnx, quantize_onnx, session
    ours, other = classifiers()
    texts = random_texts(lengths)
    as_they_come = [texts[at:at + BATCH] for at in range(0, len(texts), BATCH)]
    ordered = sorted(texts, key=len)
    by_length = [ordered[at:at + BATCH] for at in range(0, len(ordered), BATCH)]

    @torch.inference_mode()
    def run(model: Any, batches: Any, dtype: torch.dtype | None) -> None:
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            for batch in batches:
                model(**padded(batch, labels=False))

    def graph(path: Path, batches: Any) -> Callable[[], None]:
        loaded = session(path)

        def work() -> None:
            for batch in batches:
                ready = padded(batch, labels=False)
                loaded([ready[name] for name in INPUTS])
        return work

    export_onnx(ours, folder)
    plain = folder / "model.onnx"
    (folder / "int8").mkdir()
    small = quantize_onnx(plain, folder / "int8")
    ours.eval()
    return {"ours": partial(run, ours, by_length, None),
            "transformers": partial(run, other, as_they_come, None),
            "ours, bf16": partial(run, ours, by_length, torch.bfloat16),
            "transformers, bf16": partial(run, other, as_they_come, torch.bfloat16),
            "ours, ONNX fp32": graph(plain, by_length), "ONNX fp32, unsorted":
            graph(plain, as_they_come), "ours, ONNX int8": graph(small, by_length),
            "ONNX int8, unsorted": graph(small, as_they_come)}


# ---- data ----------------------------------------------------------------------------------------


def token_lengths(texts: list[str], folder: Path) -> np.ndarray:
    """Tokens of texts with [CLS] and [SEP], under the SentencePiece model beside them."""
    from model.tokenization_albert import AlbertTokenizer
    return np.array([len(ids) + 2 for ids in
                     AlbertTokenizer.from_pretrained(folder).encode_batch(texts)])


def masking(folder: Path, instances: int = 2000) -> tuple[Callable[[], None], int]:
    import contextlib
    import io

    import prepare_lm_data
    from model.tokenization_albert import AlbertTokenizer
    from processors.pretraining import PretrainingDataset, WordMasking, collate_pretraining
    from processors.shards import Corpus
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        prepare_lm_data.main(
            ["--input", str(ROOT / "dataset/english/*.txt"), "--output_dir", str(folder),
             "--tokenizer_dir", str(ROOT / "dataset/tiny_en"), "--num_workers", "1"])
    tokenizer = AlbertTokenizer.from_pretrained(folder)
    data = PretrainingDataset(Corpus(folder), tokenizer, 128, masking=WordMasking(tokenizer))

    def work() -> None:
        for at in range(0, instances, BATCH):
            collate_pretraining([data[0, i] for i in range(at, min(at + BATCH, instances))])
    return work, instances
