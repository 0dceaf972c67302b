"""One encoder with a head for each of several tasks of sequence classification.

    config.tasks = {"sst-2": ["0", "1"], "sts-b": None}    # label names; None: a number

A batch holds examples of one task, and says of which by the name under which its labels stand.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from model.configuration_albert import AlbertConfig, ConfigError
from model.modeling_albert import (
    HEADS,
    AlbertForSequenceClassification,
    AlbertModel,
    AlbertOutput,
    cross_entropy,
    label_weights,
    mean_loss,
)
from model.modeling_utils import AlbertPreTrainedModel


class AlbertForMultiTask(AlbertPreTrainedModel):
    """Classes or numbers of several tasks, from the pooled output of one encoder.

    Heads are numbered in the order of `config.tasks`; only the head of a batch's task is computed,
    so the others get no gradient from it. Raises `ConfigError` where the config names no task.
    """

    base_prefix = "bert."

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        if not config.tasks:
            raise ConfigError("the config names no tasks, expected for example "
                              "tasks = {\"sst-2\": [\"0\", \"1\"], \"sts-b\": None}")
        self.bert = AlbertModel(config)
        self.dropout = nn.Dropout(config.classifier_dropout_prob)
        self.classifiers = nn.ModuleList(
            nn.Linear(config.hidden_size, 1 if names is None else len(names))
            for names in config.tasks.values())
        self.initialize()

    def number(self, task: str) -> int:
        """The number of a task's head. Raises `ValueError` that lists the tasks there are."""
        names = list(self.config.tasks)
        if task not in names:
            raise ValueError(f"no task {task!r} in this model; it has {', '.join(names)}")
        return names.index(task)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None,
                loss_weights: Mapping[str, Tensor] | None = None,
                output_hidden_states: bool = False, output_attentions: bool = False,
                **labels: Tensor) -> AlbertOutput:
        """(B, T) ids -> logits (B, L) of one task.

        labels: one tensor under the name of the task, (B,) class ids or floats; without elements,
        (0,), where there are none. losses: one, under the name of the task.
        """
        if len(labels) != 1:
            raise ValueError(f"found labels of {', '.join(labels) or 'no task'}, expected of one: "
                             f"a batch holds one task, here of {', '.join(self.config.tasks)}")
        [(task, wanted)] = labels.items()
        encoded = self.bert(input_ids, attention_mask, token_type_ids,
                            output_hidden_states=output_hidden_states,
                            output_attentions=output_attentions)
        head = self.classifiers[self.number(task)]
        logits = head(self.dropout(encoded.pooled_output))  # (B, H) -> (B, L)
        losses = {}
        if wanted.numel():
            if self.config.tasks[task] is None:
                errors = (logits.squeeze(-1).float() - wanted.float()) ** 2  # (B,)
                weights = torch.ones_like(errors)
            else:
                errors, weights = cross_entropy(logits, wanted), label_weights(wanted)
            losses[task] = mean_loss(task, errors, weights, loss_weights)
        return AlbertOutput(loss=losses.get(task), losses=losses, logits=logits,
                            pooled_output=encoded.pooled_output,
                            hidden_states=encoded.hidden_states, attentions=encoded.attentions)

    def loss_weights(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Of every task, since ranks and steps have different ones: 0 for those not in a batch."""
        weights = {}
        for task, names in self.config.tasks.items():
            labels = batch.get(task, torch.empty(0))
            weights[task] = (torch.tensor(float(len(labels))) if names is None
                             else label_weights(labels).sum())
        return weights

    def single(self, task: str) -> AlbertForSequenceClassification:
        """A plain classifier of one task, which shares its weights with this model."""
        names = self.config.tasks[list(self.config.tasks)[self.number(task)]]
        config = self.config.replace(
            tasks=None, id2label=names, num_labels=1 if names is None else len(names),
            problem_type="regression" if names is None else "classification")
        model = AlbertForSequenceClassification(config)
        model.bert, model.classifier = self.bert, self.classifiers[self.number(task)]
        return model.train(self.training)


ALL_HEADS = HEADS | {"multitask": AlbertForMultiTask}
