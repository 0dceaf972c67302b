"""Named entities: data sets as rows, sentences to features, scores of tokens to entities.

`EntityData` is what the recipe needs to know of one split, as `ClassificationData` is for classes.

Letters: N windows (as many as sentences, where none is long), B batch, T tokens, W tokens of the
longest window of a split, L labels.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metrics.classification import MetricError, Scores
from metrics.ner import count_entities, score_entities, type_table
from model.tokenization_albert import AlbertTokenizer
from processors.base import Task
from processors.classification import padded
from processors.ner_files import CLUENER, EntitySplit, write_cluener, write_conll
from processors.ner_tags import markup_of_labels, tag_of_label, tags_of
from processors.ner_windows import make_windows, seen_spans, spread_tags
from processors.readers import DataError

logger = logging.getLogger(__name__)

IGNORED = -100  # a piece that carries no label


class EntityData:
    """One split as a map-style data set of windows: `data[(epoch, index)]` or `data[index]`.

    `task.labels` are the tags that the model learns, in the order of their ids. `lengths` (N,)
    counts the tokens of each window with [CLS] and [SEP]. Raises `DataError` for an entity whose
    type is not among the labels.
    """

    main, higher_is_better = "f1", True

    def __init__(self, task: Task, split: EntitySplit, tokenizer: AlbertTokenizer,
                 max_length: int) -> None:
        self.task, self.split = task, split
        self.pad_token_id = tokenizer.pad_token_id
        sentences = split.sentences
        made = make_windows([s.words for s in sentences], tokenizer, max_length)
        self.windows, self.seen, self.truncated = made.windows, made.seen, made.cut
        if not self.windows:
            raise DataError(f"{split.path}: the tokenizer finds nothing in all {len(sentences)} "
                            "sentences; is the first column the word?")
        self.lengths = np.array([len(window.input_ids) for window in self.windows])
        self.gold: list[list[str]] | None = None  # tags of all words, for the scores
        self.labels: list[list[int]] | None = None  # (N, T)
        if split.labelled:
            self._label()
        words = sum(len(s.words) for s in sentences)
        if made.windowed:
            logger.info("%s: %d of %d sentences are longer than %d tokens and are read in windows "
                        "that overlap, %d windows in all", split.path, made.windowed,
                        len(sentences), max_length, len(self.windows))
        if made.unseen:
            logger.info("%s: the tokenizer leaves nothing of %d of %d words (control characters, "
                        "white space); they go with the words around them", split.path,
                        made.unseen, words)
        if made.cut:
            logger.warning("%s: %d of %d words are longer than %d tokens by themselves, and their "
                           "ends were cut off", split.path, made.cut, words, max_length - 2)

    def _label(self) -> None:
        """Labels on the first piece of each word, in the window that predicts it."""
        markup = markup_of_labels(self.task.labels, self.task.name)
        id_of = {label: index for index, label in enumerate(self.task.labels)}
        self.gold, seen_ids = [], []
        for sentence, seen in zip(self.split.sentences, self.seen, strict=True):
            tags = tags_of(sentence.spans, len(sentence.words), markup)
            unknown = [tag for tag in tags if tag not in id_of]
            if unknown:
                raise DataError(f"{sentence.place}: an entity in this sentence needs the tag "
                                f"{unknown[0]}, expected one of {', '.join(self.task.labels)}")
            self.gold.append(tags)
            tags = tags_of(seen_spans(sentence.spans, seen), len(seen), markup)
            seen_ids.append({place: id_of[tag] for place, tag in zip(seen, tags, strict=True)})
        self.labels = []
        for window in self.windows:
            row = [IGNORED] * len(window.input_ids)
            for word, place in zip(window.words, window.places, strict=True):
                row[place] = seen_ids[window.sentence][word]
            self.labels.append(row)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, Any]:
        index = key[1] if isinstance(key, tuple) else key
        features = {"input_ids": self.windows[index].input_ids}
        if self.labels is not None:
            features["labels"] = self.labels[index]
        return features

    def collate(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """B features -> input_ids, attention_mask, token_type_ids, labels (B, T)."""
        return collate(features, self.pad_token_id)

    def keep(self, output: Any) -> np.ndarray:
        """What evaluation remembers of a forward pass: log-probabilities (B, W, L)."""
        logits = output.logits.float().log_softmax(-1).cpu().numpy()  # (B, T, L)
        kept = np.zeros((len(logits), int(self.lengths.max()), logits.shape[2]), np.float32)
        kept[:, :logits.shape[1]] = logits
        return kept

    def score(self, log_probs: np.ndarray) -> Scores:
        """(N, W, L) -> scores; logs a line for each type of entity.

        Raises `MetricError` where the split has no labels.
        """
        if self.gold is None:
            raise MetricError(f"{self.split.path} has no tags: a score needs one for each word")
        predicted = self.predict(log_probs)
        for line in type_table(count_entities(self.gold, predicted)):
            logger.info("%s: %s", self.split.name, line)
        return score_entities(self.gold, predicted)

    def loss(self, log_probs: np.ndarray) -> float:
        """(N, W, L) -> mean cross entropy of the words."""
        losses = [-row[place, label] for row, labels in zip(log_probs, self.labels, strict=True)
                  for place, label in enumerate(labels) if label != IGNORED]
        return float(np.mean(losses, dtype=np.float64))

    def predict(self, log_probs: np.ndarray) -> list[list[str]]:
        """(N, W, L) -> the tags of the words of each sentence, in the order of the file."""
        best = log_probs.argmax(axis=2)  # (N, W)
        tags = [tag_of_label(label) for label in self.task.labels]
        chosen: list[list[str]] = [[] for _ in self.seen]  # windows stand in the order of words
        for window, row in zip(self.windows, best, strict=True):
            chosen[window.sentence] += [tags[row[place]] for place in window.places]
        return [spread_tags(found, seen, len(sentence.words)) for found, seen, sentence in
                zip(chosen, self.seen, self.split.sentences, strict=True)]

    def write(self, log_probs: np.ndarray, path: Path) -> None:
        """Predictions in the form of the split's own file: CoNLL columns, or CLUE's submission."""
        predicted = self.predict(log_probs)
        if self.split.file_format == CLUENER:
            write_cluener(path, self.split.sentences, predicted)
        else:
            write_conll(path, self.split.sentences, predicted, self.gold)


def collate(features: Sequence[Mapping[str, Any]], pad_token_id: int) -> dict[str, Tensor]:
    """B features -> input_ids, attention_mask, token_type_ids (B, T), and labels where given."""
    rows = [f["input_ids"] for f in features]
    length = max(map(len, rows))
    batch = {"input_ids": padded(rows, length, pad_token_id),
             "attention_mask": padded([[1] * len(row) for row in rows], length, 0),
             "token_type_ids": torch.zeros(len(rows), length, dtype=torch.int64)}
    if "labels" in features[0]:
        batch["labels"] = padded([f["labels"] for f in features], length, IGNORED)
    return batch


# ---- the data sets -----------------------------------------------------------------------------


def entity_task(name: str, types: Sequence[str], train: Sequence[str], dev: Sequence[str],
                test: Sequence[str]) -> Task:
    """A row. Its labels are types of entities here; a front door makes tags of them."""
    return Task(name=name, columns={}, labels=tuple(types), metric="entities", train=tuple(train),
                dev={name: tuple(dev)} if dev else {}, test={name: tuple(test)} if test else {},
                head="token_classification", infer_labels=not types)


TASKS: dict[str, Task] = {task.name: task for task in (
    # English tweets and comments; the entities of the test set do not occur in training.
    entity_task("wnut17", ("corporation", "creative-work", "group", "location", "person",
                           "product"),
                train=("wnut17train.conll", "train.conll", "train.txt"),
                dev=("emerging.dev.conll", "dev.conll", "dev.txt"),
                test=("emerging.test.annotated", "emerging.test.conll", "test.conll", "test.txt")),
    # English news; in IOB1 as published, in IOB2 as often passed round.
    entity_task("conll2003", ("LOC", "MISC", "ORG", "PER"),
                train=("eng.train", "train.txt", "train.conll"),
                dev=("eng.testa", "valid.txt", "dev.txt", "testa.txt", "dev.conll"),
                test=("eng.testb", "test.txt", "testb.txt", "test.conll")),
    # Chinese news, ten fine types; the test file has no labels.
    entity_task("cluener", ("address", "book", "company", "game", "government", "movie", "name",
                            "organization", "position", "scene"),
                train=("train.json",), dev=("dev.json",), test=("test.json",)),
    # Chinese news; copies differ in the names of types, so these are what the training file has.
    entity_task("msra", (), train=("train.txt", "msra_train_bio.txt", "train.char.bmes"),
                dev=("dev.txt", "msra_dev_bio.txt", "dev.char.bmes"),
                test=("test.txt", "msra_test_bio.txt", "test.char.bmes")),
)}
