"""Outputs and gradients equal those of the official TensorFlow code, folder by folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import ROOT, shared

from model.conversion import export_weights
from model.modeling_albert import (
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertModel,
)

TOLERANCE = 2e-5  # largest absolute error of an output
PRETRAINED = ["google_g1", "google_g2i2", "google_g4_unshared", "bright_postln", "bright_preln"]
SAME_WEIGHTS = ["google_g1_sharded", "google_g1_v1format", "google_g1_stale"]


def reference(name: str) -> Path:
    """A file or folder of the references: some are copied into the fixtures, the rest is shared."""
    copied = ROOT / "tests" / "fixtures" / "reference" / name
    return copied if copied.exists() else shared(f"reference/{name}")


def inputs() -> dict[str, torch.Tensor]:
    arrays = {name: torch.from_numpy(a) for name, a in
              np.load(reference("inputs.npz")).items()}
    arrays["attention_mask"] = arrays.pop("input_mask")
    return {n: a.long() if a.dtype == torch.int32 else a for n, a in arrays.items()}


def expected(folder: str) -> dict[str, torch.Tensor]:
    return {n: torch.from_numpy(np.asarray(a)) for n, a in
            np.load(reference(f"{folder}/expected.npz")).items()}


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted.to(found.dtype), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("folder", PRETRAINED + SAME_WEIGHTS)
def test_pretraining_checkpoints(folder):
    wanted = expected("google_g1" if folder in SAME_WEIGHTS else folder)
    model = AlbertForPreTraining.from_pretrained(reference(f"{folder}"))
    batch = inputs()
    with torch.no_grad():
        close(model.bert.embeddings(batch["input_ids"], batch["token_type_ids"]),
              wanted["embedding_output"])
        out = model(**batch, output_hidden_states=True)
    assert len(out.hidden_states) == 1 + sum(name.startswith("layer_") for name in wanted)
    for i, hidden in enumerate(out.hidden_states[1:]):
        close(hidden, wanted[f"layer_{i}"])
    close(out.sequence_output, wanted["sequence_output"])
    close(out.pooled_output, wanted["pooled_output"])
    log_probs = out.logits.log_softmax(-1).flatten(0, 1)  # (B, P, V) -> (B * P, V)
    close(log_probs, wanted["mlm_log_probs"])
    ids = batch["masked_lm_ids"].flatten()
    close(-log_probs.gather(1, ids[:, None]).squeeze(1), wanted["mlm_example_loss"])
    close(out.losses["mlm"], wanted["mlm_loss"])
    order = out.seq_relationship_logits.log_softmax(-1)
    close(order, wanted["sop_log_probs"])
    close(-order.gather(1, batch["sentence_order_labels"]).squeeze(1), wanted["sop_example_loss"])
    close(out.losses["sop"], wanted["sop_loss"])
    if "total_loss" in wanted:
        close(out.loss, wanted["total_loss"])


def test_tf_hub_checkpoint_without_order_head():
    wanted, batch = expected("google_g1"), inputs()
    model = AlbertModel.from_pretrained(reference("google_g1_hub"))
    with torch.no_grad():
        out = model(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"])
    close(out.sequence_output, wanted["sequence_output"])
    close(out.pooled_output, wanted["pooled_output"])
    pretraining = AlbertForPreTraining.from_pretrained(reference("google_g1_hub"))
    assert set(pretraining.load_report.new) == {"cls.seq_relationship.weight",
                                                "cls.seq_relationship.bias"}


def test_row_8_order_labels_mean_what_they_meant():
    # 0 = in order, 1 = swapped: the loss of each label is that of the official code.
    wanted, batch = expected("google_g1"), inputs()
    model = AlbertForPreTraining.from_pretrained(reference("google_g1"))
    assert batch["sentence_order_labels"].unique().tolist() == [0, 1]
    with torch.no_grad():
        out = model(**batch)
        flipped = model(**batch | {"sentence_order_labels": 1 - batch["sentence_order_labels"]})
    close(out.losses["sop"], wanted["sop_loss"])
    assert abs(flipped.losses["sop"] - wanted["sop_loss"]) > 0.01


def test_gradients():
    model = AlbertForPreTraining.from_pretrained(reference("google_g1"))
    model(**inputs()).loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.grad)
    found = export_weights(model, "google")  # gradients under their TensorFlow names and shapes
    wanted = dict(np.load(reference("google_g1/gradients.npz")))
    assert set(found) == set(wanted)
    for name, gradient in wanted.items():
        error = np.abs(np.asarray(found[name]) - gradient).max()
        # a key's bias gradient is zero in exact arithmetic: held to the scale of all gradients
        assert error <= 1e-4 * max(np.abs(gradient).max(), 1e-3), name


def test_finetuned_classifier():
    wanted, batch = expected("finetuned_classifier"), inputs()
    model = AlbertForSequenceClassification.from_pretrained(
        reference("finetuned_classifier"))
    assert model.config.num_labels == 3 and not model.load_report.new
    with torch.no_grad():
        out = model(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"],
                    labels=torch.tensor([0, 2, 1]))
    close(out.logits, wanted["logits"])
    close(out.logits.softmax(-1), wanted["probabilities"])
    close(out.loss, wanted["loss"])


def test_finetuned_race():
    wanted, batch = expected("finetuned_race"), inputs()
    model = AlbertForMultipleChoice.from_pretrained(reference("finetuned_race"))
    assert not model.load_report.new
    with torch.no_grad():
        out = model(*(batch[n][None] for n in ("input_ids", "attention_mask", "token_type_ids")),
                    labels=torch.tensor([1]))
    close(out.logits, wanted["logits"])
    close(out.logits.softmax(-1), wanted["probabilities"])
    close(out.loss, wanted["loss"])


def test_finetuned_squad_v1():
    wanted, batch = expected("finetuned_squad_v1"), inputs()
    model = AlbertForQuestionAnswering.from_pretrained(reference("finetuned_squad_v1"))
    with torch.no_grad():
        out = model(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"])
    close(out.start_logits, wanted["start_logits"])
    close(out.end_logits, wanted["end_logits"])


def test_finetuned_squad_v2():
    wanted, batch = expected("finetuned_squad_v2"), inputs()
    model = AlbertForQuestionAnswering.from_pretrained(reference("finetuned_squad_v2"))
    assert model.config.squad_head == "v2" and not model.load_report.new
    p_mask = torch.from_numpy(np.load(reference("finetuned_squad_v2/p_mask.npz"))["p_mask"])
    with torch.no_grad():
        out = model(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"],
                    p_mask=p_mask)
    # A position that the mask excludes scores below any other, by any large number; which of them
    # fills up a beam, and the ends given such a start, are arbitrary.
    starts = wanted["start_top_log_probs"] > -1e20  # (B, S)
    ends = (wanted["end_top_log_probs"] > -1e20) & starts.repeat_interleave(5, 1)  # (B, S * 5)
    assert (out.start_top_log_probs[~starts] < -1e20).all() and not starts.all()
    for name, reachable in (("start", starts), ("end", ends)):
        close(getattr(out, f"{name}_top_log_probs")[reachable],
              wanted[f"{name}_top_log_probs"][reachable])
        assert torch.equal(getattr(out, f"{name}_top_index")[reachable],
                           wanted[f"{name}_top_index"].long()[reachable])
    close(out.cls_logits, wanted["cls_logits"])
