"""The model's invariants: sharing, fast and explicit paths, parts of a loss, saving, resizing."""

from __future__ import annotations

import logging

import pytest
import torch
from safetensors.torch import load_file

from model.configuration_albert import AlbertConfig, ConfigError
from model.modeling_albert import (
    HEADS,
    AlbertForMaskedLM,
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
)

SIZES = {"vocab_size": 53, "embedding_size": 6, "hidden_size": 20, "num_hidden_layers": 5,
         "num_attention_heads": 4, "intermediate_size": 28, "max_position_embeddings": 17,
         "initializer_range": 0.3}
B, T, P = 4, 11, 3


def config(**changes) -> AlbertConfig:
    return AlbertConfig(**(SIZES | changes))


def batch(kind: str, rows: int = B) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(7)
    shape = (rows, 3, T) if kind == "multiple_choice" else (rows, T)

    def ids(high, *size):
        return torch.randint(high, size, generator=g)

    lengths = 2 + ids(T - 1, *shape[:-1], 1)
    out = {"input_ids": ids(53, *shape), "token_type_ids": ids(2, *shape),
           "attention_mask": (torch.arange(T) < lengths).long()}
    if kind == "pretraining":
        out |= {"masked_lm_positions": ids(T, rows, P), "masked_lm_ids": ids(53, rows, P),
                "masked_lm_weights": ids(2, rows, P).float(), "sentence_order_labels": ids(2, rows)}
        out["masked_lm_weights"][:, 0] = 1
        out["sentence_order_labels"][1] = -100
    elif kind == "masked_lm":
        out["labels"] = ids(53, rows, T).masked_fill(ids(3, rows, T) > 0, -100)
        out["labels"][:, 0] = 5
    elif kind == "token_classification":
        out["labels"] = ids(2, rows, T).masked_fill(ids(3, rows, T) == 0, -100)
    elif kind == "question_answering":
        out |= {"start_positions": ids(T, rows), "end_positions": ids(T, rows),
                "is_impossible": ids(2, rows), "p_mask": ids(2, rows, T)}
        out["p_mask"].scatter_(1, out["start_positions"][:, None], 0)
        out["p_mask"].scatter_(1, out["end_positions"][:, None], 0)
    elif kind != "model":
        out["labels"] = ids(2, rows)
    return out


HEAD_CASES = [(kind, {}) for kind in HEADS if kind != "model"] + [
    ("question_answering", {"squad_head": "v2"}),
    ("classification", {"num_labels": 1}),
    ("pretraining", {"layout": "bright", "ln_type": "preln"}),
]


@pytest.mark.parametrize("kind, changes", HEAD_CASES)
def test_parts_of_a_batch_add_up_to_its_loss_and_gradient(kind, changes):
    model = HEADS[kind](config(**changes)).eval()
    whole = batch(kind)
    out = model(**whole)
    out.loss.backward()
    expected = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    parts = [{k: v[:1] for k, v in whole.items()}, {k: v[1:] for k, v in whole.items()}]
    weights = [model.loss_weights(part) for part in parts]
    totals = {k: sum(w[k] for w in weights) for k in weights[0]}
    assert totals == model.loss_weights(whole)
    losses = [model(**part, loss_weights=totals).loss for part in parts]
    sum(losses).backward()
    torch.testing.assert_close(sum(losses), out.loss, rtol=1e-5, atol=1e-6)
    for name, parameter in model.named_parameters():
        if name in expected:
            torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-4, atol=1e-6)
    assert len(expected) >= len(list(model.bert.encoder.parameters()))


@pytest.mark.parametrize("layout", ["google", "bright"])
@pytest.mark.parametrize("ln_type", ["postln", "preln"])
def test_sdpa_equals_the_explicit_path(layout, ln_type):
    model = AlbertModel(config(layout=layout, ln_type=ln_type, inner_group_num=2)).eval()
    inputs = batch("model")
    fast = model(**inputs, output_hidden_states=True)
    explicit = model(**inputs, output_attentions=True)
    torch.testing.assert_close(fast.sequence_output, explicit.sequence_output, rtol=1e-4, atol=1e-5)
    assert len(fast.hidden_states) == 11 and len(explicit.attentions) == 10
    assert fast.hidden_states[-1] is fast.sequence_output and not fast.attentions
    for weights in explicit.attentions:
        assert weights.shape == (B, 4, T, T)
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, 4, T))
        hidden = (inputs["attention_mask"] == 0)[:, None, None].expand_as(weights)
        assert weights[hidden].abs().max() == 0


def test_padding_changes_nothing_and_a_row_of_padding_is_finite():
    model = AlbertModel(config()).eval()
    ids = torch.randint(53, (2, 7))
    padded = torch.nn.functional.pad(ids, (0, 4), value=9)
    mask = (torch.arange(11) < 7).long().expand(2, -1)
    short, long = model(ids), model(padded, mask)
    torch.testing.assert_close(long.sequence_output[:, :7], short.sequence_output, rtol=1e-4,
                               atol=1e-5)
    assert model(padded, torch.zeros_like(mask)).sequence_output.isfinite().all()
    square = mask[:, None, :].expand(-1, 11, -1)
    torch.testing.assert_close(model(padded, square).sequence_output, long.sequence_output)


@pytest.mark.parametrize("share_type, attentions, ffns",
                         [("all", 2, 2), ("attention", 2, 5), ("ffn", 5, 2), ("none", 5, 5)])
def test_share_types_have_the_blocks_of_the_ablation(share_type, attentions, ffns):
    model = AlbertModel(config(share_type=share_type, num_hidden_groups=2))
    names = [name for name, _ in model.named_parameters()]
    assert sum(name.endswith("query.weight") for name in names) == attentions
    assert sum(name.endswith("intermediate.dense.weight") for name in names) == ffns
    out = model(**batch("model"), output_hidden_states=True)
    assert len(out.hidden_states) == 6
    out.sequence_output.sum().backward()
    assert all(p.grad is not None for n, p in model.named_parameters() if "pooler" not in n)


def test_share_types_agree_when_their_weights_do():
    shared = AlbertModel(config()).eval()
    inputs = batch("model")
    expected = shared(**inputs).sequence_output
    weights = dict(shared.named_parameters())
    for share_type in ("attention", "ffn", "none"):
        model = AlbertModel(config(share_type=share_type)).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parts = name.split(".")
                if "group" in parts:
                    parts[parts.index("group") + 1] = "0"
                parameter.copy_(weights[".".join(parts)])
        torch.testing.assert_close(model(**inputs).sequence_output, expected)


def test_groups_follow_the_official_rule():
    # five layers in two groups: floor(i * 2 / 5)
    assert AlbertModel(config(num_hidden_groups=2)).encoder.transformer.group_of_layer == [
        0, 0, 0, 1, 1]


@pytest.mark.parametrize("share_type", ["all", "ffn"])
def test_activation_checkpointing_gives_the_same_gradients(share_type):
    model = AlbertForPreTraining(config(share_type=share_type, hidden_dropout_prob=0.1,
                                        attention_probs_dropout_prob=0.1)).train()
    grads = []
    for on in (False, True):
        model.set_activation_checkpointing(on)
        model.zero_grad()
        torch.manual_seed(3)
        model(**batch("pretraining")).loss.backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    for plain, recomputed in zip(*grads, strict=True):
        assert torch.equal(plain, recomputed)


def test_activation_checkpointing_keeps_fewer_tensors():
    model = AlbertModel(config(num_hidden_layers=12)).train()
    kept = []
    for on in (False, True):
        model.set_activation_checkpointing(on)
        size = 0

        def pack(x):
            nonlocal size
            size += x.numel()
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            model(**batch("model"))
        kept.append(size)
    assert kept[1] < kept[0] / 5


def test_dropout_is_off_in_evaluation_and_on_in_training():
    model = AlbertModel(config(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3))
    inputs = batch("model")
    model.eval()
    assert torch.equal(model(**inputs).sequence_output, model(**inputs).sequence_output)
    model.train()
    assert not torch.equal(model(**inputs).sequence_output, model(**inputs).sequence_output)


def test_masked_positions_meet_the_vocabulary_alone():
    model = AlbertForPreTraining(config()).eval()
    inputs = batch("pretraining")
    everywhere = model(inputs["input_ids"], inputs["attention_mask"], inputs["token_type_ids"])
    gathered = model(**inputs)
    assert gathered.logits.shape == (B, P, 53) and everywhere.logits.shape == (B, T, 53)
    index = inputs["masked_lm_positions"][..., None].expand(-1, -1, 53)
    torch.testing.assert_close(everywhere.logits.gather(1, index), gathered.logits)
    assert everywhere.loss is None


def test_order_objective_has_a_switch_and_a_weight():
    model = AlbertForPreTraining(config()).eval()
    inputs = batch("pretraining")
    both = model(**inputs)
    torch.testing.assert_close(both.loss, both.losses["mlm"] + both.losses["sop"])
    model.sop_weight = 0.25
    torch.testing.assert_close(model(**inputs).loss,
                               both.losses["mlm"] + 0.25 * both.losses["sop"])
    del inputs["sentence_order_labels"]
    off = model(**inputs)
    assert set(off.losses) == {"mlm"} and torch.equal(off.loss, both.losses["mlm"])


def test_heads_have_the_documented_shapes():
    cases = {AlbertForMaskedLM: (B, T, 53), AlbertForSequenceClassification: (B, 2),
             AlbertForTokenClassification: (B, T, 2), AlbertForMultipleChoice: (B, 3)}
    kinds = {cls: kind for kind, cls in HEADS.items()}
    for cls, shape in cases.items():
        assert cls(config()).eval()(**batch(kinds[cls])).logits.shape == shape


def test_squad_heads():
    inputs = batch("question_answering")
    asked = {k: inputs[k] for k in ("input_ids", "attention_mask", "token_type_ids", "p_mask")}
    v1 = AlbertForQuestionAnswering(config()).eval()
    assert v1(**asked).start_logits.shape == (B, T)
    v2 = AlbertForQuestionAnswering(config(squad_head="v2", start_n_top=3, end_n_top=2)).eval()
    out = v2(**asked)
    assert out.start_top_index.shape == (B, 3) and out.end_top_index.shape == (B, 6)
    assert out.cls_logits.shape == (B,)
    assert set(v2(**inputs).losses) == {"span", "answerable"}
    allowed = inputs["p_mask"].gather(1, out.start_top_index) == 0
    finite = out.start_top_log_probs > -1e30
    assert torch.equal(allowed, finite)


def test_too_many_tokens_is_told():
    with pytest.raises(ValueError, match="18 tokens.*17"):
        AlbertModel(config())(torch.zeros(1, 18, dtype=torch.long))


def test_initial_weights_are_the_official_ones():
    model = AlbertForPreTraining(AlbertConfig(num_hidden_layers=1))
    weight = model.bert.encoder.transformer.group[0].inner_group[0].output.dense.weight
    # a normal cut off at two deviations has 0.8796 of its deviation
    assert weight.abs().max() <= 0.04 and abs(weight.std() - 0.02 * 0.8796) < 1e-4
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert (parameter == (1 if name.endswith("LayerNorm.weight") else 0)).all()


@pytest.mark.parametrize("share_type", ["all", "attention", "ffn", "none"])
@pytest.mark.parametrize("layout", ["google", "bright"])
def test_save_and_load_each_weight_once(tmp_path, share_type, layout):
    model = AlbertForPreTraining(config(share_type=share_type, layout=layout)).eval()
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert sum(t.numel() for t in saved.values()) == model.num_parameters()
    again = AlbertForPreTraining.from_pretrained(tmp_path)
    assert not again.load_report.new and not again.load_report.skipped
    assert again.config == model.config and not again.training
    for (name, p), (other, q) in zip(model.named_parameters(), again.named_parameters(),
                                     strict=True):
        assert name == other and torch.equal(p, q)
    torch.testing.assert_close(again(**batch("pretraining")).loss,
                               model(**batch("pretraining")).loss, rtol=0, atol=0)


def test_row_7_a_new_head_is_warned_of(tmp_path, caplog):
    AlbertModel(config()).save_pretrained(tmp_path)
    with caplog.at_level(logging.WARNING):
        model = AlbertForMaskedLM.from_pretrained(tmp_path)
    assert "newly initialised" in caplog.text and "cls.predictions.bias" in caplog.text
    assert set(model.load_report.new) == model.head_names()
    bound = 2 * SIZES["initializer_range"]
    dense = model.cls["predictions"].transform["dense"].weight
    assert 0 < dense.abs().max() <= bound  # initialised, not the memory it was made in


def test_new_head_on_request_and_other_number_of_labels(tmp_path):
    AlbertForSequenceClassification(config(num_labels=3)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="classifier.weight"):
        AlbertForSequenceClassification.from_pretrained(tmp_path, num_labels=2)
    model = AlbertForSequenceClassification.from_pretrained(tmp_path, num_labels=2, new_head=True)
    assert set(model.load_report.new) == {"classifier.weight", "classifier.bias"}
    assert model.classifier.weight.shape == (2, 20)


def test_config_and_weights_that_disagree(tmp_path):
    AlbertModel(config()).save_pretrained(tmp_path)
    config(vocab_size=54, intermediate_size=24).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="(?s)vocab_size: config 54, weights 53.*"
                                          "intermediate_size: config 24, weights 28"):
        AlbertModel.from_pretrained(tmp_path)


def test_resizing_the_vocabulary():
    model = AlbertForPreTraining(config()).eval()
    inputs = batch("pretraining")
    before = model(**inputs).logits
    model.resize_token_embeddings(60)
    after = model(**inputs).logits
    assert after.shape[-1] == 60 and model.config.vocab_size == 60
    assert model.bert.config.vocab_size == 60
    torch.testing.assert_close(after[..., :53], before)
    model.resize_token_embeddings(40)
    assert model.bert.embeddings.word_embeddings.weight.shape == (40, 6)
    assert len(list(model.named_parameters())) == len(set(model.parameters()))


def test_half_precision_forward_is_close():
    model = AlbertForPreTraining(config()).eval()
    exact = model(**batch("pretraining"))
    with torch.autocast("cpu", torch.bfloat16):
        half = model(**batch("pretraining"))
    torch.testing.assert_close(half.loss, exact.loss, rtol=0.05, atol=0.05)
    assert half.loss.dtype == torch.float32
