"""A fine-tuned classifier in a person's hands: texts in, labels and probabilities out.

    predictor = Predictor.from_pretrained("outputs/sst-2")
    [answer] = predictor(["a gripping film"])      # answer.label, answer.probability
    for answer in predictor.stream(open("texts.txt")):  # as long as it likes, in order
        ...

A pair of texts is a tuple of two. `run_classifier.py --predict_file` is this on the command line.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from callback.trainer import PRECISIONS
from model.conversion import infer_architecture, open_checkpoint
from model.modeling_albert import AlbertForSequenceClassification
from model.modeling_utils import WeightsError
from model.multitask import AlbertForMultiTask
from model.tokenization_albert import AlbertTokenizer
from processors.classification import padded

logger = logging.getLogger(__name__)

WINDOW = 32  # batches that are read ahead and sorted by length, so that little is padding
Text = str | tuple[str, str]  # a text, or a pair of them


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says of one text or pair."""

    label: str | float  # a label's name; a number for regression
    probability: float | None = None  # of the label; None for regression
    probabilities: dict[str, float] = field(default_factory=dict)  # of all labels, summing to 1


class Predictor:
    """Predicts with a model for sequence classification or regression.

    model: in evaluation mode, on the device to use. labels: names in the order of their ids, None
    for regression. max_length: tokens with [CLS] and [SEP]; longer texts are cut and counted in
    `truncated`.
    """

    def __init__(self, model: AlbertForSequenceClassification, tokenizer: AlbertTokenizer,
                 labels: Sequence[str] | None, batch_size: int = 32,
                 max_length: int | None = None, precision: str = "fp32") -> None:
        positions = model.config.max_position_embeddings
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected at least 1")
        if max_length is not None and not 4 <= max_length <= positions:
            raise ValueError(f"max_length is {max_length}, expected 4 to {positions}, the "
                             "positions of the model")
        if precision not in PRECISIONS:
            raise ValueError(f"precision is {precision!r}, expected one of {list(PRECISIONS)}")
        self.model, self.tokenizer = model.eval(), tokenizer
        self.labels = None if labels is None else list(labels)
        self.batch_size, self.dtype = batch_size, PRECISIONS[precision]
        self.max_length = max_length or min(512, positions)
        self.device = next(model.parameters()).device
        self.truncated = 0  # texts that were cut so far

    @classmethod
    def from_pretrained(cls, directory: str | Path, device: str | torch.device | None = None,
                        batch_size: int = 32, max_length: int | None = None,
                        precision: str = "fp32", tokenizer: AlbertTokenizer | None = None,
                        task: str | None = None) -> Predictor:
        """Open the folder of a fine-tuned model: ours, the predecessor's or Hugging Face's.

        device: the first card where there is one, else the CPU, unless given. tokenizer: that of
        the folder unless given. task: which head to use, of a model of several tasks; others have
        one head, whatever it is called.
        Raises FileNotFoundError (no weights there), `WeightsError` (a model without a head, or
        with that of another kind of task), and what opening config and tokenizer raises.
        """
        source = open_checkpoint(directory)
        proven = infer_architecture(source)
        tokenizer = tokenizer or AlbertTokenizer.from_pretrained(source.directories[0])
        if proven["head"] == "multitask":
            several = AlbertForMultiTask.from_pretrained(source)
            if task not in several.config.tasks:
                raise WeightsError(f"{directory}: a model of the tasks "
                                   f"{', '.join(several.config.tasks)}; say which (--task_name), "
                                   f"found {task}")
            model = several.single(task)
        elif "num_labels" not in proven:
            raise WeightsError(
                f"{directory}: no classifier in it (found a head of the kind {proven['head']}), "
                "so there is nothing to predict with; fine-tune it first with run_classifier.py "
                "--do_train, and give the --output_dir of that run")
        else:
            model = AlbertForSequenceClassification.from_pretrained(source)
        config = model.config
        tokenizer.check_config(config.vocab_size, config.pad_token_id, str(source))
        labels = config.id2label
        if not config.is_regression and config.num_labels == 1:
            raise WeightsError(f"{directory}: its head gives one score, and its config says that "
                               "it is no number: a model of multiple choice?")
        if labels is not None and "O" in labels and any(n.startswith("B-") for n in labels):
            raise WeightsError(f"{directory}: its labels ({', '.join(labels[:4])}, …) are those of "
                               "entities, one for every token; this predicts one for a text")
        if labels is None and not config.is_regression:
            labels = [f"LABEL_{number}" for number in range(config.num_labels)]
            logger.warning("%s does not name its labels; they are called %s to %s, by their ids",
                           directory, labels[0], labels[-1])
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(model.to(device), tokenizer, None if config.is_regression else labels,
                   batch_size, max_length, precision)

    @property
    def window(self) -> int:
        """Texts that `stream` reads ahead; one at a time where a batch is one."""
        return 1 if self.batch_size == 1 else WINDOW * self.batch_size

    def __call__(self, texts: Text | Sequence[Text]) -> list[Prediction]:
        """Predictions of texts (or pairs, as tuples) in their order; one text is a list of one."""
        return list(self.stream([texts] if isinstance(texts, (str, tuple)) else texts))

    def stream(self, texts: Iterable[Text]) -> Iterator[Prediction]:
        """The same for any number of texts, of which never more than `window` are in memory.

        Where reading them fails, what came before is predicted and then the error is raised.
        """
        for window in _windows(texts, self.window):
            yield from self._predictions(self.logits(window))

    @torch.inference_mode()
    def logits(self, texts: Sequence[Text]) -> np.ndarray:
        """The head's scores (N, L) of N texts or pairs."""
        input_ids, token_type_ids = self._encode(texts)
        lengths = [len(ids) for ids in input_ids]
        order = np.argsort(lengths, kind="stable")[::-1]
        result = np.empty((len(texts), self.model.config.num_labels), np.float32)
        for at in range(0, len(order), self.batch_size):
            chosen = order[at:at + self.batch_size]
            longest = lengths[chosen[0]]
            rows = [input_ids[i] for i in chosen]
            batch = {
                "input_ids": padded(rows, longest, self.tokenizer.pad_token_id),  # (B, T)
                "attention_mask": padded([[1] * len(row) for row in rows], longest, 0),
                "token_type_ids": padded([token_type_ids[i] for i in chosen], longest, 0),
            }
            with torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not None):
                output = self.model(**{name: t.to(self.device) for name, t in batch.items()})
            result[chosen] = output.logits.float().cpu().numpy()
        return result

    def _encode(self, texts: Sequence[Text]) -> tuple[list[list[int]], list[list[int]]]:
        """Ids and token types; single texts and pairs may be mixed."""
        input_ids: list[list[int]] = [[]] * len(texts)
        token_type_ids: list[list[int]] = [[]] * len(texts)
        singles = [i for i, text in enumerate(texts) if isinstance(text, str)]
        pairs = [i for i, text in enumerate(texts) if _is_pair(text)]
        if len(singles) + len(pairs) < len(texts):
            wrong = next(t for t in texts if not isinstance(t, str) and not _is_pair(t))
            raise TypeError(f"found {wrong!r}, expected a text (str) or a tuple of two")
        for places, two in ((singles, False), (pairs, True)):
            if not places:
                continue
            firsts = [texts[i][0] if two else texts[i] for i in places]
            seconds = [texts[i][1] for i in places] if two else None
            encoding = self.tokenizer(firsts, seconds, max_length=self.max_length)
            self.truncated += encoding.truncated
            for row, i in enumerate(places):
                input_ids[i] = encoding.input_ids[row]
                token_type_ids[i] = encoding.token_type_ids[row]
        return input_ids, token_type_ids

    def _predictions(self, logits: np.ndarray) -> Iterator[Prediction]:
        if self.labels is None:
            yield from (Prediction(float(value)) for value in logits[:, 0])
            return
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))  # (N, L)
        shares /= shares.sum(axis=1, keepdims=True)
        for row in shares.tolist():
            best = max(range(len(row)), key=row.__getitem__)  # the first of equals
            yield Prediction(self.labels[best], row[best], dict(zip(self.labels, row, strict=True)))


def _is_pair(text: Text) -> bool:
    return isinstance(text, tuple) and len(text) == 2 and all(isinstance(t, str) for t in text)


def _windows(texts: Iterable[Text], size: int) -> Iterator[list[Text]]:
    window: list[Text] = []
    try:
        for text in texts:
            window.append(text)
            if len(window) == size:
                yield window
                window = []
    except Exception:  # a broken line, say: it is told after the answers to the lines before it
        if window:
            yield window
        raise
    if window:
        yield window
