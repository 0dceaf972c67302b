"""AlbertModel and the task heads.

Every head's `forward` takes a batch and returns an `AlbertOutput`. Losses are sums over examples
(or masked words) divided by their weight once: `loss_weights(batch)` tells the weight of a batch
without running it, and `forward(..., loss_weights=totals)` divides by totals of a larger batch
of which this is a part, so that parts add up to the loss of the whole.

Letters in shape comments as in `model/encoder.py`; P masked positions, C choices, L labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.configuration_albert import AlbertConfig
from model.encoder import (
    ACTIVATIONS,
    AlbertAttention,
    AlbertEmbeddings,
    AlbertEncoder,
    AlbertGroup,
    AlbertLayer,
    AlbertPooler,
    AlbertTransformer,
    attention_scores_bias,
)
from model.modeling_utils import AlbertPreTrainedModel

__all__ = [
    "AlbertAttention", "AlbertConfig", "AlbertEmbeddings", "AlbertEncoder",
    "AlbertForMaskedLM", "AlbertForMultipleChoice", "AlbertForPreTraining",
    "AlbertForQuestionAnswering", "AlbertForSequenceClassification", "AlbertForTokenClassification",
    "AlbertGroup", "AlbertLayer", "AlbertModel", "AlbertOutput", "AlbertPooler",
    "AlbertTransformer", "HEADS",
]

IGNORED = -100  # a label that is not scored


@dataclass
class AlbertOutput:
    """What a forward pass gives; a field that a model does not compute stays None or empty."""

    loss: Tensor | None = None  # () total, differentiable
    losses: dict[str, Tensor] = field(default_factory=dict)  # the parts of the total, each ()
    logits: Tensor | None = None  # the head's scores; see the head for the shape
    sequence_output: Tensor | None = None  # (B, T, H)
    pooled_output: Tensor | None = None  # (B, H)
    hidden_states: list[Tensor] = field(default_factory=list)  # layer inputs and last output
    attentions: list[Tensor] = field(default_factory=list)  # (B, N, T, T) each layer
    seq_relationship_logits: Tensor | None = None  # (B, 2): 0 in order, 1 swapped
    start_logits: Tensor | None = None  # (B, T)
    end_logits: Tensor | None = None  # (B, T); SQuAD v2 in training: given the true start
    cls_logits: Tensor | None = None  # (B,) SQuAD v2: above 0 = unanswerable
    start_top_log_probs: Tensor | None = None  # (B, S) SQuAD v2 beam, S = start_n_top
    start_top_index: Tensor | None = None  # (B, S)
    end_top_log_probs: Tensor | None = None  # (B, S * start's ends)
    end_top_index: Tensor | None = None  # (B, S * start's ends)


def mean_loss(part: str, losses: Tensor, weights: Tensor, totals: Mapping[str, Tensor] | None,
              epsilon: float = 0.0) -> Tensor:
    """Weighted sum of per-item losses over the weight of this part in `totals` (or here)."""
    total = weights.sum() if totals is None else totals[part]
    total = total + epsilon if epsilon else total.clamp(min=1)
    return (losses.float() * weights).sum() / total


def label_weights(labels: Tensor) -> Tensor:
    """1 for a label that is scored, 0 for one below zero (IGNORED)."""
    return (labels >= 0).float()


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """(..., L) scores, (...) labels, below zero = none -> (...) losses, computed in float32."""
    flat = labels.flatten()
    flat = flat.masked_fill(flat < 0, IGNORED)
    losses = F.cross_entropy(logits.float().flatten(0, -2), flat, reduction="none",
                             ignore_index=IGNORED)
    return losses.view(labels.shape)


class AlbertModel(AlbertPreTrainedModel):
    """The encoder without a head. Its weights carry the prefix `bert.` inside the heads."""

    base_prefix = ""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.embeddings = AlbertEmbeddings(config)
        self.encoder = AlbertEncoder(config)
        self.pooler = AlbertPooler(config)
        self.initialize()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None, position_ids: Tensor | None = None,
                output_hidden_states: bool = False, output_attentions: bool = False,
                pool: bool = True) -> AlbertOutput:
        """(B, T) ids -> sequence_output (B, T, H), pooled_output (B, H) unless pool is False.

        attention_mask: (B, T) or (B, T, T), 1 = attend; left out, every token is attended.
        hidden_states: the mapped embeddings, then the output of every inner layer, in order.
        Raises ValueError for more tokens than the model has positions.
        """
        x = self.embeddings(input_ids, token_type_ids, position_ids)
        bias = attention_scores_bias(attention_mask, x.dtype)
        x, hidden_states, attentions = self.encoder(x, bias, output_hidden_states,
                                                    output_attentions)
        return AlbertOutput(sequence_output=x, pooled_output=self.pooler(x) if pool else None,
                            hidden_states=hidden_states, attentions=attentions)


class AlbertMLMHead(nn.Module):
    """Masked-word prediction: dense, activation, LayerNorm, then the embedding table itself."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        width = config.hidden_size if config.layout == "bright" else config.embedding_size
        self.transform = nn.ModuleDict({
            "dense": nn.Linear(config.hidden_size, width),
            "LayerNorm": nn.LayerNorm(width, eps=config.layer_norm_eps),
        })
        self.activation = ACTIVATIONS[config.hidden_act]
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, x: Tensor, embeddings: AlbertEmbeddings) -> Tensor:
        """(..., H) -> (..., V)."""
        x = self.transform["LayerNorm"](self.activation(self.transform["dense"](x)))
        return embeddings.vocabulary_logits(x) + self.bias


class _WithHead(AlbertPreTrainedModel):
    """What the heads share: the encoder under the name `bert`.

    Their `forward` passes `wanted` (output_hidden_states, output_attentions) on to the encoder.
    """

    base_prefix = "bert."

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.bert = AlbertModel(config)

    def output(self, encoded: AlbertOutput, losses: dict[str, Tensor], **fields) -> AlbertOutput:
        loss = sum(losses.values()) if losses else None
        return AlbertOutput(loss=loss, losses=losses, hidden_states=encoded.hidden_states,
                            attentions=encoded.attentions, **fields)


class AlbertForPreTraining(_WithHead):
    """Masked words and sentence order, the two pretraining objectives (paper, section 3.1).

    `sop_weight` scales the sentence-order loss in the total. Without `sentence_order_labels`
    the order is not scored.
    """

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.cls = nn.ModuleDict({
            "predictions": AlbertMLMHead(config),
            "seq_relationship": nn.Linear(config.hidden_size, 2),
        })
        self.sop_weight = 1.0
        self.initialize()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None, masked_lm_positions: Tensor | None = None,
                masked_lm_ids: Tensor | None = None, masked_lm_weights: Tensor | None = None,
                sentence_order_labels: Tensor | None = None,
                loss_weights: Mapping[str, Tensor] | None = None, **wanted: bool,
                ) -> AlbertOutput:
        """(B, T) ids -> logits (B, P, V) at the masked positions, or (B, T, V) without them.

        masked_lm_positions, masked_lm_ids: (B, P); masked_lm_weights: (B, P), 0 = padding.
        sentence_order_labels: (B,) or (B, 1), 0 = in order, 1 = swapped, below 0 = not scored.
        losses: "mlm" and "sop", with run_pretraining.py's normalisation (sum / (weight + 1e-5)).
        """
        encoded = self.bert(input_ids, attention_mask, token_type_ids, **wanted)
        x = encoded.sequence_output
        if masked_lm_positions is not None:  # only these meet the vocabulary
            index = masked_lm_positions[..., None].expand(-1, -1, x.shape[-1])
            x = x.gather(1, index)  # (B, T, H) -> (B, P, H)
        logits = self.cls["predictions"](x, self.bert.embeddings)
        order_logits = self.cls["seq_relationship"](encoded.pooled_output)  # (B, H) -> (B, 2)
        losses = {}
        if masked_lm_ids is not None:
            losses["mlm"] = mean_loss("mlm", cross_entropy(logits, masked_lm_ids),
                                      masked_lm_weights, loss_weights, epsilon=1e-5)
        if sentence_order_labels is not None:
            labels = sentence_order_labels.flatten()
            losses["sop"] = mean_loss("sop", cross_entropy(order_logits, labels),
                                      label_weights(labels), loss_weights)
        output = self.output(encoded, losses, logits=logits, seq_relationship_logits=order_logits,
                             sequence_output=encoded.sequence_output,
                             pooled_output=encoded.pooled_output)
        if "sop" in losses and self.sop_weight != 1.0:
            output.loss = output.loss + (self.sop_weight - 1.0) * losses["sop"]
        return output

    def loss_weights(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        weights = {}
        if "masked_lm_weights" in batch:
            weights["mlm"] = batch["masked_lm_weights"].sum()
        if "sentence_order_labels" in batch:
            weights["sop"] = label_weights(batch["sentence_order_labels"]).sum()
        return weights


class AlbertForMaskedLM(_WithHead):
    """Masked-word prediction at every position."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.cls = nn.ModuleDict({"predictions": AlbertMLMHead(config)})
        self.initialize()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None, labels: Tensor | None = None,
                loss_weights: Mapping[str, Tensor] | None = None, **wanted: bool,
                ) -> AlbertOutput:
        """(B, T) ids -> logits (B, T, V). labels: (B, T), -100 = not scored."""
        encoded = self.bert(input_ids, attention_mask, token_type_ids, pool=False, **wanted)
        logits = self.cls["predictions"](encoded.sequence_output, self.bert.embeddings)
        losses = {}
        if labels is not None:
            losses["mlm"] = mean_loss("mlm", cross_entropy(logits, labels), label_weights(labels),
                                      loss_weights)
        return self.output(encoded, losses, logits=logits)

    def loss_weights(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"mlm": label_weights(batch["labels"]).sum()}


class AlbertForSequenceClassification(_WithHead):
    """A class, or a number where `config.is_regression`, from the pooled output."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.classifier_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.initialize()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None, labels: Tensor | None = None,
                loss_weights: Mapping[str, Tensor] | None = None, **wanted: bool,
                ) -> AlbertOutput:
        """(B, T) ids -> logits (B, L). labels: (B,) class ids, or floats for regression.

        losses: "classification" (cross entropy) or "regression" (squared error, as run_glue).
        """
        encoded = self.bert(input_ids, attention_mask, token_type_ids, **wanted)
        logits = self.classifier(self.dropout(encoded.pooled_output))  # (B, H) -> (B, L)
        losses = {}
        if labels is not None and self.config.is_regression:
            errors = (logits.squeeze(-1).float() - labels.float()) ** 2
            losses["regression"] = mean_loss("regression", errors, torch.ones_like(errors),
                                             loss_weights)
        elif labels is not None:
            losses["classification"] = mean_loss("classification", cross_entropy(logits, labels),
                                                 label_weights(labels), loss_weights)
        return self.output(encoded, losses, logits=logits, pooled_output=encoded.pooled_output)

    def loss_weights(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        labels = batch["labels"]
        if self.config.is_regression:
            return {"regression": torch.ones_like(labels, dtype=torch.float).sum()}
        return {"classification": label_weights(labels).sum()}


class AlbertForTokenClassification(_WithHead):
    """A class for every token (entities)."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.classifier_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.initialize()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None, labels: Tensor | None = None,
                loss_weights: Mapping[str, Tensor] | None = None, **wanted: bool,
                ) -> AlbertOutput:
        """(B, T) ids -> logits (B, T, L). labels: (B, T), -100 = not scored."""
        encoded = self.bert(input_ids, attention_mask, token_type_ids, pool=False, **wanted)
        logits = self.classifier(self.dropout(encoded.sequence_output))  # (B, T, H) -> (B, T, L)
        losses = {}
        if labels is not None:
            losses["tokens"] = mean_loss("tokens", cross_entropy(logits, labels),
                                         label_weights(labels), loss_weights)
        return self.output(encoded, losses, logits=logits)

    def loss_weights(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"tokens": label_weights(batch["labels"]).sum()}


class AlbertForMultipleChoice(_WithHead):
    """One score a choice, softmax over the choices (official race_utils.py)."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.classifier_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.initialize()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None, labels: Tensor | None = None,
                loss_weights: Mapping[str, Tensor] | None = None, **wanted: bool,
                ) -> AlbertOutput:
        """(B, C, T) ids, mask and types -> logits (B, C). labels: (B,) the right choice.

        A choice whose mask is all 0 is not there: it has no share in the softmax.
        """
        flat = [x if x is None else x.flatten(0, 1)  # (B, C, T) -> (B * C, T)
                for x in (input_ids, attention_mask, token_type_ids)]
        encoded = self.bert(*flat, **wanted)
        logits = self.classifier(self.dropout(encoded.pooled_output))  # (B * C, H) -> (B * C, 1)
        logits = logits.view(input_ids.shape[:2])  # (B, C)
        if attention_mask is not None:
            logits = hide(logits, attention_mask.sum(-1) == 0)
        losses = {}
        if labels is not None:
            losses["choice"] = mean_loss("choice", cross_entropy(logits, labels),
                                         label_weights(labels), loss_weights)
        return self.output(encoded, losses, logits=logits)

    def loss_weights(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"choice": label_weights(batch["labels"]).sum()}


class AlbertForQuestionAnswering(_WithHead):
    """Answer spans: the SQuAD v1 head, or (config.squad_head "v2") the official v2 head.

    v1 (run_squad_v1.py): start and end scores from one dense layer.
    v2 (squad_utils.py, after XLNet): the end is scored given the start, and a third part tells
    whether there is an answer; prediction looks at the best start_n_top starts and, for each,
    the best end_n_top ends.
    """

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        hidden = config.hidden_size
        if config.squad_head == "v1":
            self.qa_outputs = nn.Linear(hidden, 2)
        else:
            self.start_logits = nn.ModuleDict({"dense": nn.Linear(hidden, 1)})
            self.end_logits = nn.ModuleDict({
                "dense_0": nn.Linear(2 * hidden, hidden),
                "LayerNorm": nn.LayerNorm(hidden, eps=1e-12),
                "dense_1": nn.Linear(hidden, 1),
            })
            self.answer_class = nn.ModuleDict({
                "dense_0": nn.Linear(2 * hidden, hidden),
                "dense_1": nn.Linear(hidden, 1, bias=False),
            })
            self.dropout = nn.Dropout(config.classifier_dropout_prob)
        self.initialize()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None, start_positions: Tensor | None = None,
                end_positions: Tensor | None = None, is_impossible: Tensor | None = None,
                p_mask: Tensor | None = None, loss_weights: Mapping[str, Tensor] | None = None,
                **wanted: bool) -> AlbertOutput:
        """(B, T) ids -> start_logits, end_logits (B, T); v2 without labels: the beam instead.

        start_positions, end_positions: (B,) token positions, below 0 = not scored.
        is_impossible: (B,) 1 = no answer (v2). p_mask: (B, T) 1 = may not be an answer.
        losses: "span" (mean of start and end) and in v2 "answerable" (times 0.5, as official).
        """
        encoded = self.bert(input_ids, attention_mask, token_type_ids, pool=False, **wanted)
        x = encoded.sequence_output
        if self.config.squad_head == "v1":
            start, end = self.qa_outputs(x).unbind(-1)  # (B, T, H) -> 2 x (B, T)
            fields = {"start_logits": hide(start, p_mask), "end_logits": hide(end, p_mask)}
        else:
            start = hide(self.start_logits["dense"](x).squeeze(-1), p_mask)  # (B, T)
            fields = {"start_logits": start, "cls_logits": self.answerable(x, start)}
            if start_positions is None:
                fields |= self.beam(x, start, p_mask)
            else:
                known = start_positions.clamp(min=0)[:, None]  # (B, 1)
                fields["end_logits"] = self.end_given_start(x, known, p_mask).squeeze(1)
        losses = {}
        if start_positions is not None:
            spans = (cross_entropy(fields["start_logits"], start_positions)
                     + cross_entropy(fields["end_logits"], end_positions)) / 2  # (B,)
            losses["span"] = mean_loss("span", spans, label_weights(start_positions), loss_weights)
            if self.config.squad_head == "v2" and is_impossible is not None:
                errors = F.binary_cross_entropy_with_logits(
                    fields["cls_logits"].float(), is_impossible.float(), reduction="none")
                losses["answerable"] = 0.5 * mean_loss("answerable", errors,
                                                       torch.ones_like(errors), loss_weights)
        return self.output(encoded, losses, **fields)

    def end_given_start(self, x: Tensor, starts: Tensor, p_mask: Tensor | None) -> Tensor:
        """(B, T, H), (B, S) start positions -> (B, S, T) scores of every end."""
        head = self.end_logits
        chosen = x.gather(1, starts[..., None].expand(-1, -1, x.shape[-1]))  # (B, S, H)
        pair = torch.cat([x[:, None].expand(-1, starts.shape[1], -1, -1),
                          chosen[:, :, None].expand(-1, -1, x.shape[1], -1)], -1)  # (B, S, T, 2H)
        y = head["LayerNorm"](torch.tanh(head["dense_0"](pair)))  # (B, S, T, H)
        y = head["dense_1"](y).squeeze(-1)  # (B, S, T)
        return hide(y, None if p_mask is None else p_mask[:, None])

    def answerable(self, x: Tensor, start_logits: Tensor) -> Tensor:
        """(B, T, H), (B, T) -> (B,): the higher, the surer that there is no answer."""
        likely_start = torch.einsum("bt,bth->bh", start_logits.float().softmax(-1).to(x.dtype), x)
        y = torch.cat([likely_start, x[:, 0]], -1)  # (B, 2H)
        y = self.dropout(torch.tanh(self.answer_class["dense_0"](y)))
        return self.answer_class["dense_1"](y).squeeze(-1)

    def beam(self, x: Tensor, start_logits: Tensor, p_mask: Tensor | None) -> dict[str, Tensor]:
        """The best starts (B, S) and, for each, the best ends, start-major (B, S * ends)."""
        length = x.shape[1]
        top = start_logits.float().log_softmax(-1).topk(min(self.config.start_n_top, length), -1)
        ends = self.end_given_start(x, top.indices, p_mask).float().log_softmax(-1)  # (B, S, T)
        end_top = ends.topk(min(self.config.end_n_top, length), -1)
        return {
            "start_top_log_probs": top.values, "start_top_index": top.indices,
            "end_top_log_probs": end_top.values.flatten(1),
            "end_top_index": end_top.indices.flatten(1),
        }

    def loss_weights(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        starts = batch["start_positions"]
        weights = {"span": label_weights(starts).sum()}
        if "is_impossible" in batch:
            weights["answerable"] = torch.ones_like(starts, dtype=torch.float).sum()
        return weights


def hide(logits: Tensor, p_mask: Tensor | None) -> Tensor:
    """Scores with the places that may not be an answer (p_mask 1) pushed out of reach."""
    if p_mask is None:
        return logits
    return logits.masked_fill(p_mask.bool(), torch.finfo(logits.dtype).min)


HEADS = {
    "model": AlbertModel,
    "pretraining": AlbertForPreTraining,
    "masked_lm": AlbertForMaskedLM,
    "classification": AlbertForSequenceClassification,
    "token_classification": AlbertForTokenClassification,
    "question_answering": AlbertForQuestionAnswering,
    "multiple_choice": AlbertForMultipleChoice,
}
