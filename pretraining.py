"""The pretraining recipe: shards -> model, evaluation, trainer, report."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from callback import distributed
from callback.checkpoint import checkpoints
from callback.health import LossSpike, NotLearning
from callback.lr_scheduler import Schedule
from callback.modelcheckpoint import ModelCheckpoint
from callback.optimization import build_optimizer
from callback.plan import ShuffledPlan, longest_batch
from callback.progressbar import ProgressBar, peak_memory
from callback.trainer import PRECISIONS, Trainer, TrainerConfig
from callback.trainingmonitor import TrainingMonitor, read_metrics
from model.configuration_albert import PRESETS, AlbertConfig
from model.flops import flops_per_token
from model.modeling_albert import AlbertForPreTraining
from model.tokenization_albert import AlbertTokenizer
from pretraining_settings import PretrainingSettings
from processors.pretraining import PretrainingDataset, WordMasking, collate_pretraining
from processors.shards import Corpus
from tools.arguments import save_settings
from tools.logging import log_to_file

logger = logging.getLogger(__name__)

PROBED = 1000  # instances of which the longest are tried before the run


class PretrainingError(ValueError):
    """A run that cannot start; says what was found, what was expected and what to do."""


def pretrain(settings: PretrainingSettings) -> dict[str, float]:
    """Run or resume a pretraining; returns the last held-out evaluation.

    The folder gets `checkpoint-<step>` directories, `metrics.jsonl`, `curves.png`, TensorBoard
    files, `training_report.md`, and at the end the model itself.
    """
    device = distributed.initialize(settings.no_cuda)
    output_dir = Path(settings.output_dir)
    tokenizer = AlbertTokenizer.from_pretrained(settings.data_dir)
    train = Corpus(settings.data_dir, "train", tokenizer.fingerprint())
    resumed = newest_checkpoint(output_dir) if settings.resume else None
    model = build_model(settings, tokenizer, resumed).to(device)
    masking = WordMasking(tokenizer, settings.masked_lm_prob, settings.max_predictions,
                          settings.ngram)
    dataset = PretrainingDataset(
        train, tokenizer, settings.max_seq_length, settings.seed, settings.short_seq_prob,
        not settings.no_sop, masking, settings.dupe_factor if settings.static_masking else 0)
    collate = partial(collate_pretraining, pad_token_id=tokenizer.pad_token_id,
                      sop=not settings.no_sop)
    evaluate = held_out_evaluation(settings, model, tokenizer, masking, collate, device,
                                   bool(train.manifest["splits"].get("heldout")))
    steps = settings.steps(dataset.epoch_size(0))
    schedule = Schedule(settings.scheduler, steps, settings.warmup_steps(steps))
    micro_batch = settings.micro_batch_size(distributed.world_size())
    if distributed.is_main():
        output_dir.mkdir(parents=True, exist_ok=True)
        log_to_file(output_dir / "run.log")
        save_settings(settings, output_dir / "settings.json")
    flops = flops_per_token(model.config, settings.max_seq_length, settings.masked_lm_prob)
    peak = matmul_peak(device, settings.autocast)
    trainer = Trainer(
        model, build_optimizer(settings.optimizer, model, settings.rate, settings.weight_decay,
                               settings.adam_epsilon),
        schedule, ShuffledPlan(dataset.epoch_size, settings.train_batch_size, settings.seed),
        dataset, collate, TrainerConfig(
            output_dir, steps, micro_batch, settings.max_grad_norm, settings.autocast,
            settings.logging_steps, settings.num_eval_steps, settings.seed, settings.num_workers),
        device, [ProgressBar("pretraining", flops, peak), TrainingMonitor(output_dir), LossSpike(),
                 not_learning(settings),
                 ModelCheckpoint(settings.save_steps, save_total_limit=settings.save_total_limit)],
        evaluate, lambda folder: model.save_pretrained(folder, tokenizer),
        {"data": train.fingerprint, "max_seq_length": settings.max_seq_length,
         "learning_rate": settings.rate, "optimizer": settings.optimizer})
    if resumed is not None:
        try:
            trainer.resume(resumed)
        except ValueError as error:  # another seed, batch, schedule or data set
            raise PretrainingError(f"--resume: {error}") from None
    describe(settings, model, train, dataset, schedule)
    lengths = [len(dataset[0, i]["input_ids"]) for i in range(min(PROBED, len(dataset)))]
    trainer.probe(longest_batch(lengths, micro_batch))
    started, tokens_before = time.perf_counter(), trainer.state.tokens
    trainer.fit()
    speed = (trainer.state.tokens - tokens_before) / max(time.perf_counter() - started, 1e-9)
    metrics = {}
    if distributed.is_main():
        model.save_pretrained(output_dir, tokenizer)
        metrics = write_report(settings, trainer, train, speed,
                               speed * flops / (peak * distributed.world_size()))
        logger.info("model: %s · report: %s", output_dir, output_dir / "training_report.md")
    distributed.barrier()
    return metrics


def newest_checkpoint(output_dir: Path) -> Path | None:
    """Where a run goes on from; None, with a message, where it has to begin."""
    found = checkpoints(output_dir)
    if not found:
        logger.info("--resume: no checkpoint in %s yet, starting at step 0", output_dir)
    return found[-1] if found else None


def build_model(settings: PretrainingSettings, tokenizer: AlbertTokenizer,
                resumed: Path | None) -> AlbertForPreTraining:
    """A new model, or the weights to go on from; its vocabulary has to be the tokenizer's."""
    if resumed is not None or settings.model_path is not None:
        source = resumed or settings.model_path
        model = AlbertForPreTraining.from_pretrained(source)
    else:
        source = settings.config_name
        known = settings.config_name in PRESETS
        config = (AlbertConfig.from_preset(settings.config_name) if known else
                  AlbertConfig.from_json_file(settings.config_name))
        if config.vocab_size != len(tokenizer):
            logger.info("vocabulary: %d entries as in %s, instead of the config's %d",
                        len(tokenizer), settings.data_dir, config.vocab_size)
            config = config.replace(vocab_size=len(tokenizer))
        torch.manual_seed(settings.seed)
        model = AlbertForPreTraining(config)
    tokenizer.check_config(model.config.vocab_size, model.config.pad_token_id, str(source))
    if settings.max_seq_length > model.config.max_position_embeddings:
        raise PretrainingError(
            f"--max_seq_length {settings.max_seq_length}, but {source} has positions for "
            f"{model.config.max_position_embeddings}")
    model.sop_weight = settings.sop_weight
    model.set_activation_checkpointing(settings.activation_checkpointing)
    return model


def held_out_evaluation(settings: PretrainingSettings, model: AlbertForPreTraining,
                        tokenizer: AlbertTokenizer, masking: WordMasking, collate: Any,
                        device: torch.device, split_exists: bool,
                        ) -> Callable[[], dict[str, float]] | None:
    """What the trainer calls to evaluate; None, with a warning, where nothing was held out."""
    if not split_exists:
        logger.warning("%s has no held-out split: no evaluation, only the training loss",
                       settings.data_dir)
        return None
    corpus = Corpus(settings.data_dir, "heldout", tokenizer.fingerprint())
    dataset = PretrainingDataset(corpus, tokenizer, settings.max_seq_length, seed=0,
                                 sop=not settings.no_sop, masking=masking)
    return partial(evaluate_pretraining, model, dataset, collate, device, settings.autocast,
                   settings.eval_instances, settings.micro_batch_size(distributed.world_size()))


@torch.inference_mode()
def evaluate_pretraining(model: AlbertForPreTraining, dataset: PretrainingDataset, collate: Any,
                         device: torch.device, precision: str, instances: int,
                         batch_size: int) -> dict[str, float]:
    """Held-out numbers over the first instances of epoch 0, the same at every call.

    mlm_loss, perplexity, mlm_accuracy, sop_accuracy, and the baselines that go with them: the
    share of the most frequent label, and that of the more frequent order.
    """
    dtype = PRECISIONS[precision]
    vocab = model.config.vocab_size
    sums = torch.zeros(6, dtype=torch.float64)  # loss, right, masked, order right, pairs, swapped
    labels = torch.zeros(vocab, dtype=torch.float64)
    count = min(instances, len(dataset))
    own = range(distributed.rank(), count, distributed.world_size())
    for at in range(0, len(own), batch_size):
        batch = collate([dataset[0, i] for i in own[at:at + batch_size]])
        batch = {name: value.to(device) for name, value in batch.items()}
        with torch.autocast(device.type, dtype, enabled=dtype is not None):
            output = model(**batch)
        weights = batch["masked_lm_weights"].bool()
        ids = batch["masked_lm_ids"][weights]
        scores = output.logits[weights].float()  # (masked, V)
        sums[0] += torch.nn.functional.cross_entropy(scores, ids, reduction="sum").item()
        sums[1] += (scores.argmax(-1) == ids).sum().item()
        sums[2] += len(ids)
        labels += torch.bincount(ids, minlength=vocab).double().cpu()
        if "sentence_order_labels" in batch:
            order = batch["sentence_order_labels"]
            pairs = order >= 0
            right = output.seq_relationship_logits.argmax(-1) == order
            sums[3] += (right & pairs).sum().item()
            sums[4] += pairs.sum().item()
            sums[5] += (order == 1).sum().item()
    sums = distributed.all_reduce_sum(sums.to(device)).cpu()
    labels = distributed.all_reduce_sum(labels.to(device)).cpu()
    loss, right, masked, order_right, pairs, swapped = sums.tolist()
    metrics = {"mlm_loss": loss / masked, "perplexity": math.exp(min(50.0, loss / masked)),
               "mlm_accuracy": right / masked,
               "mlm_baseline": labels.max().item() / masked}
    if pairs:
        metrics |= {"sop_accuracy": order_right / pairs, "sop_pairs": pairs,
                    "sop_baseline": max(swapped, pairs - swapped) / pairs}
    return metrics


def not_learning(settings: PretrainingSettings) -> NotLearning:
    chance = {"mlm_accuracy": ("mlm_baseline", 0.02)}
    if not settings.no_sop:
        chance["sop_accuracy"] = ("sop_baseline", 0.02)
    return NotLearning(settings.not_learning_steps, chance,
                       "Check the learning rate and its warm-up, that the corpus has several "
                       "sentences a document, and the tokens of a few instances by eye")


def matmul_peak(device: torch.device, precision: str, size: int = 1024) -> float:
    """Measured floating-point operations a second of a square matrix product on this device."""
    dtype = PRECISIONS[precision] or torch.float32
    a = torch.randn(size, size, device=device, dtype=dtype)
    best = math.inf
    for _ in range(4):
        if device.type == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        a @ a
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def describe(settings: PretrainingSettings, model: AlbertForPreTraining, train: Corpus,
             dataset: PretrainingDataset, schedule: Schedule) -> None:
    passes = schedule.total_steps * settings.train_batch_size / dataset.epoch_size(0)
    logger.info("%s tokens in %s documents · %s instances an epoch · %s parameters",
                f"{train.total('tokens'):,}", f"{train.total('documents'):,}",
                f"{dataset.epoch_size(0):,}", f"{model.num_parameters():,}")
    logger.info("%s steps of %s sequences (%.1f epochs) · peak rate %.3g after %d steps",
                f"{schedule.total_steps:,}", f"{settings.train_batch_size:,}", passes,
                settings.rate, schedule.warmup_steps)


def write_report(settings: PretrainingSettings, trainer: Trainer, train: Corpus, speed: float,
                 mfu: float) -> dict[str, float]:
    """`training_report.md` and `eval_results.json`; returns the last evaluation.

    speed: tokens a second of this start of the run, all processes, evaluation included.
    """
    folder = Path(settings.output_dir)
    evaluations = [line for line in read_metrics(folder / "metrics.jsonl")
                   if line["kind"] == "eval"]
    last = evaluations[-1] if evaluations else {}
    metrics = {k: v for k, v in last.items() if k not in ("step", "kind")}
    state = trainer.state
    facts = {
        "steps": f"{state.step:,}, of these {state.bad_steps} skipped",
        "sequences": f"{state.samples:,}", "tokens": f"{state.tokens:,}",
        "speed": f"{speed:,.0f} tokens a second, evaluation included",
        "MFU": f"{mfu:.0%} of the speed of a matrix product on this device",
        "most memory": f"{peak_memory(trainer.device) / 2**30:.1f} GB",
        "devices": f"{distributed.world_size()} × {trainer.device.type}",
        "torch": torch.__version__,
        "data": f"{settings.data_dir}, {train.total('tokens'):,} tokens, "
                f"{train.total('documents'):,} documents, fingerprint {train.fingerprint}"}
    text = ["# Training report", "", "| | |", "|---|---|",
            *(f"| {name} | {value} |" for name, value in facts.items()), "",
            "## Held out", "", "| | |", "|---|---:|",
            *(f"| {name} | {value:.4f} |" for name, value in metrics.items()), "",
            "![curves](curves.png)", "", "## Settings", "", "```json",
            (folder / "settings.json").read_text(encoding="utf-8").strip(), "```", ""]
    (folder / "training_report.md").write_text("\n".join(text), encoding="utf-8")
    (folder / "eval_results.json").write_text(json.dumps(metrics, indent=2) + "\n",
                                              encoding="utf-8")
    return metrics
