"""The pretraining recipe: shards -> model, evaluation, trainer, report."""

from __future__ import annotations

import json
import logging
import math
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from callback import distributed
from callback.checkpoint import checkpoints
from callback.health import LossSpike, NotLearning
from callback.lr_scheduler import SCHEDULES, Schedule
from callback.modelcheckpoint import ModelCheckpoint
from callback.optimization import OPTIMIZERS, build_optimizer
from callback.plan import ShuffledPlan
from callback.progressbar import ProgressBar
from callback.trainer import PRECISIONS, Trainer, TrainerConfig
from callback.trainingmonitor import TrainingMonitor
from model.configuration_albert import PRESETS, AlbertConfig
from model.flops import flops_per_token
from model.modeling_albert import AlbertForPreTraining
from model.tokenization_albert import AlbertTokenizer
from processors.pretraining import PretrainingDataset, WordMasking, collate_pretraining
from processors.shards import Corpus
from tools.arguments import flag, save_settings
from tools.logging import log_to_file

logger = logging.getLogger(__name__)

PAPER_RATE, PAPER_BATCH = 0.00176, 4096  # LAMB, paper section 4.1
PAPER_WARMUP = 3125 / 125_000
DOMAIN_RATE, DOMAIN_WARMUP = 5e-5, 0.1  # going on from released weights: unlearn nothing


@dataclass
class PretrainingSettings:
    """Every flag of run_pretraining.py."""

    data_dir: Path = flag("folder of shards that prepare_lm_data.py made", group="data")
    output_dir: Path = flag("folder of the run: checkpoints, curves, report", group="data")
    max_seq_length: int = flag("tokens of an instance", 512, group="data")
    masked_lm_prob: float = flag("share of tokens to predict", 0.15, group="data")
    max_predictions_per_seq: int | None = flag(
        "most tokens to predict in an instance (default: masked_lm_prob of max_seq_length)", None,
        group="data")
    ngram: int = flag("longest run of words masked together, p(n) ~ 1/n", 3, group="data")
    short_seq_prob: float = flag("share of instances of random shorter length", 0.1, group="data")
    static_masking: bool = flag("the same masks every epoch, as the paper's code", False,
                                group="data")
    dupe_factor: int = flag("with --static_masking: different copies before they repeat", 1,
                            group="data")
    no_sop: bool = flag("leave sentence-order prediction out", False, group="data")
    sop_weight: float = flag("weight of the sentence-order loss", 1.0, group="data")

    config_name: str | None = flag("preset (base_v2, zh_tiny, ...) or JSON file of a new model",
                                   None, aliases=["config_path"], group="model")
    model_path: Path | None = flag("go on from this model directory or TensorFlow checkpoint",
                                   None, aliases=["model_name_or_path"], group="model")
    activation_checkpointing: bool = flag("less memory, a third more time", False,
                                          aliases=["gradient_checkpointing"], group="model")

    max_steps: int = flag("optimizer steps", 125_000, group="training")
    train_batch_size: int = flag("sequences of an optimizer step, on all ranks together", 4096,
                                 group="training")
    per_gpu_train_batch_size: int = flag(
        "sequences in memory at once on a device; the rest is accumulated", 32,
        aliases=["per_device_train_batch_size", "micro_batch_size"], group="training")
    learning_rate: str = flag(
        f"peak rate, or auto: {PAPER_RATE} * sqrt(batch / {PAPER_BATCH}), and {DOMAIN_RATE} with "
        "--model_path", "auto", group="training")
    warmup_proportion: float | None = flag(
        f"share of steps to warm up (default: {PAPER_WARMUP}, and {DOMAIN_WARMUP} with "
        "--model_path)", None, group="training")
    optimizer: str = flag("optimizer", "lamb", choices=list(OPTIMIZERS), group="training")
    scheduler: str = flag("schedule after the warm-up", "linear", choices=list(SCHEDULES),
                          group="training")
    weight_decay: float = flag("decay of matrices", 0.01, group="training")
    adam_epsilon: float = flag("epsilon of the optimizer", 1e-6, group="training")
    max_grad_norm: float = flag("gradient norm to clip to, 0 = none", 1.0, group="training")
    precision: str = flag("arithmetic", "fp32", choices=list(PRECISIONS), group="training")
    fp16: bool = flag("short for --precision fp16", False, group="training")
    seed: int = flag("seed of everything random", 42, group="training")
    num_workers: int = flag("loader processes; they change no number", 0, group="training")
    no_cuda: bool = flag("use the CPU, whatever cards there are", False, group="training")

    logging_steps: int = flag("steps between logs", 50, group="watching")
    num_eval_steps: int = flag("steps between held-out evaluations", 1000, group="watching")
    eval_instances: int = flag("held-out instances to evaluate on", 2000, group="watching")
    save_steps: int = flag("steps between checkpoints", 1000, aliases=["num_save_steps"],
                           group="watching")
    save_total_limit: int = flag("newest checkpoints to keep", 3, group="watching")
    not_learning_steps: int = flag("steps after which a run at chance is warned of", 5000,
                                   group="watching")
    resume: bool = flag("go on from the newest checkpoint in --output_dir", False,
                        group="watching")
    overwrite_output_dir: bool = flag("start in a folder that holds another run", False,
                                      group="watching")

    def problems(self) -> list[str]:
        """What is wrong with these settings, before any work."""
        found = []
        if (self.config_name is None) == (self.model_path is None):
            found.append("give one of --config_name (a new model) and --model_path (go on)")
        if self.learning_rate != "auto":
            try:
                float(self.learning_rate)
            except ValueError:
                found.append(f"--learning_rate {self.learning_rate}: expected a number or auto")
        for name in ("max_steps", "train_batch_size", "per_gpu_train_batch_size", "logging_steps",
                     "num_eval_steps", "save_steps", "ngram", "dupe_factor", "save_total_limit"):
            if getattr(self, name) < 1:
                found.append(f"--{name} {getattr(self, name)}: expected at least 1")
        if not 0 < self.masked_lm_prob < 1:
            found.append(f"--masked_lm_prob {self.masked_lm_prob}: expected between 0 and 1")
        if self.output_dir and not (self.resume or self.overwrite_output_dir):
            if checkpoints(Path(self.output_dir)):
                found.append(f"--output_dir {self.output_dir} holds checkpoints: give --resume to "
                             "go on, --overwrite_output_dir to start anew, or another folder")
        return found

    @property
    def rate(self) -> float:
        if self.learning_rate != "auto":
            return float(self.learning_rate)
        if self.model_path is not None:
            return DOMAIN_RATE
        return PAPER_RATE * math.sqrt(self.train_batch_size / PAPER_BATCH)

    @property
    def warmup_steps(self) -> int:
        share = self.warmup_proportion
        if share is None:
            share = PAPER_WARMUP if self.model_path is None else DOMAIN_WARMUP
        return int(share * self.max_steps)

    @property
    def max_predictions(self) -> int:
        return self.max_predictions_per_seq or math.ceil(self.masked_lm_prob * self.max_seq_length)


def pretrain(settings: PretrainingSettings) -> dict[str, float]:
    """Run or resume a pretraining; returns the last held-out evaluation.

    The folder gets `checkpoint-<step>` directories, `metrics.jsonl`, `curves.png`, TensorBoard
    files, `training_report.md`, and at the end the model itself.
    """
    if settings.fp16:
        settings.precision = "fp16"
    device = distributed.initialize(settings.no_cuda)
    output_dir = Path(settings.output_dir)
    tokenizer = AlbertTokenizer.from_pretrained(settings.data_dir)
    train = Corpus(settings.data_dir, "train", tokenizer.fingerprint())
    held_out = (Corpus(settings.data_dir, "heldout", tokenizer.fingerprint())
                if train.manifest["splits"].get("heldout") else None)
    resumed = checkpoints(output_dir)[-1] if settings.resume and checkpoints(output_dir) else None
    model = build_model(settings, tokenizer, resumed).to(device)
    masking = WordMasking(tokenizer, settings.masked_lm_prob, settings.max_predictions,
                          settings.ngram)
    dataset = PretrainingDataset(
        train, tokenizer, settings.max_seq_length, settings.seed, settings.short_seq_prob,
        not settings.no_sop, masking, settings.dupe_factor if settings.static_masking else 0)
    collate = partial(collate_pretraining, pad_token_id=tokenizer.pad_token_id,
                      sop=not settings.no_sop)
    evaluate = None
    if held_out is None:
        logger.warning("%s has no held-out split: no evaluation, only the training loss",
                       settings.data_dir)
    else:
        test_set = PretrainingDataset(held_out, tokenizer, settings.max_seq_length, seed=0,
                                      sop=not settings.no_sop, masking=masking)
        evaluate = partial(evaluate_pretraining, model, test_set, collate, device,
                           settings.precision, settings.eval_instances,
                           settings.per_gpu_train_batch_size)
    if distributed.is_main():
        output_dir.mkdir(parents=True, exist_ok=True)
        log_to_file(output_dir / "run.log")
        save_settings(settings, output_dir / "settings.json")
    checkpointing = ModelCheckpoint(settings.save_steps, save_total_limit=settings.save_total_limit)
    flops = flops_per_token(model.config, settings.max_seq_length, settings.masked_lm_prob)
    bar = ProgressBar("pretraining", flops, matmul_peak(device, settings.precision))
    trainer = Trainer(
        model, build_optimizer(settings.optimizer, model, settings.rate, settings.weight_decay,
                               settings.adam_epsilon),
        Schedule(settings.scheduler, settings.max_steps, settings.warmup_steps),
        ShuffledPlan(dataset.epoch_size, settings.train_batch_size, settings.seed), dataset,
        collate, TrainerConfig(
            output_dir, settings.max_steps, settings.per_gpu_train_batch_size,
            settings.max_grad_norm, settings.precision, settings.logging_steps,
            settings.num_eval_steps, settings.seed, settings.num_workers),
        device, [bar, TrainingMonitor(output_dir), LossSpike(), not_learning(settings),
                 checkpointing],
        evaluate, lambda folder: model.save_pretrained(folder, tokenizer),
        {"data": train.fingerprint, "max_seq_length": settings.max_seq_length,
         "learning_rate": settings.rate, "optimizer": settings.optimizer})
    describe(settings, model, train, dataset)
    if resumed is not None:
        trainer.resume(resumed)
    started, tokens_before = time.perf_counter(), trainer.state.tokens
    trainer.fit()
    seconds = time.perf_counter() - started
    if distributed.is_main():
        model.save_pretrained(output_dir, tokenizer)
        metrics = write_report(settings, trainer, train, seconds,
                               trainer.state.tokens - tokens_before)
        logger.info("model: %s · report: %s", output_dir, output_dir / "training_report.md")
    else:
        metrics = {}
    distributed.barrier()
    return metrics


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
    tokenizer.check_config(model.config.vocab_size, model.config.pad_token_id, source)
    if settings.max_seq_length > model.config.max_position_embeddings:
        raise ValueError(f"--max_seq_length {settings.max_seq_length}, but {source} has positions "
                         f"for {model.config.max_position_embeddings}")
    model.sop_weight = settings.sop_weight
    model.set_activation_checkpointing(settings.activation_checkpointing)
    return model


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
    chance = {"mlm_accuracy": (0.06, 0.02)}
    if not settings.no_sop:
        chance["sop_accuracy"] = (0.5, 0.02)
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
             dataset: PretrainingDataset) -> None:
    steps = settings.max_steps
    passes = steps * settings.train_batch_size / dataset.epoch_size(0)
    logger.info("%s tokens in %s documents · %s instances an epoch · %s parameters",
                f"{train.total('tokens'):,}", f"{train.total('documents'):,}",
                f"{dataset.epoch_size(0):,}", f"{model.num_parameters():,}")
    logger.info("%s steps of %s sequences (%.1f epochs) · peak rate %.3g after %d steps",
                f"{steps:,}", f"{settings.train_batch_size:,}", passes, settings.rate,
                settings.warmup_steps)


def write_report(settings: PretrainingSettings, trainer: Trainer, train: Corpus, seconds: float,
                 tokens: int) -> dict[str, float]:
    """`training_report.md` and `eval_results.json`; returns the last evaluation."""
    from callback.trainingmonitor import read_metrics
    folder = Path(settings.output_dir)
    lines = read_metrics(folder / "metrics.jsonl")
    last = next((line for line in reversed(lines) if line["kind"] == "eval"), {})
    metrics = {k: v for k, v in last.items() if k not in ("step", "kind")}
    rows = [f"| {name} | {value:.4f} |" for name, value in metrics.items()]
    text = ["# Training report", "",
            f"{trainer.state.step:,} steps · {trainer.state.samples:,} sequences · "
            f"{trainer.state.tokens:,} tokens · {trainer.state.bad_steps} skipped steps",
            f"{tokens / max(seconds, 1e-9):,.0f} tokens a second over {seconds / 60:.1f} minutes "
            f"on {distributed.world_size()} × {trainer.device.type}, torch {torch.__version__}",
            f"Data: {settings.data_dir}, fingerprint {train.fingerprint}, "
            f"{train.total('tokens'):,} tokens, {train.total('documents'):,} documents", "",
            "## Held out", "", "| | |", "|---|---:|", *rows, "",
            "![curves](curves.png)", "", "## Settings", "", "```json",
            (folder / "settings.json").read_text(encoding="utf-8").strip(), "```", ""]
    (folder / "training_report.md").write_text("\n".join(text), encoding="utf-8")
    (folder / "eval_results.json").write_text(json.dumps(metrics, indent=2) + "\n",
                                              encoding="utf-8")
    return metrics
