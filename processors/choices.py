"""Multiple choice: questions to features, scores of choices to predictions.

A choice is one sequence, as in ALBERT's own RACE code:

    [CLS] passage [SEP] question and choice [SEP]

What is too long is taken from the end of the passage. Where a passage has a blank (CHID), what is
kept is the part around it.

Letters: N questions, B batch, C choices, T tokens.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metrics.classification import METRICS, Scores, score
from model.tokenization_albert import AlbertTokenizer
from processors.base import LoadedSplit
from processors.choice_readers import BLANK, ChoiceExample
from processors.race import ChoiceTask

logger = logging.getLogger(__name__)

NEVER = np.finfo(np.float32).min  # the score of a choice that is not there
MASKS_OF_A_BLANK = 4  # CHID's idioms have four characters


class ChoiceData:
    """One split as a map-style data set: `data[(epoch, index)]` or `data[index]` -> features.

    A passage is tokenised once, however many questions and choices it has, and a sequence is put
    together when it is asked for. `lengths` (N,) counts the tokens of a question's longest
    sequence; `choices` is the largest number of choices.

    max_qa_length: tokens of question and choice; of longer ones the end is kept.
    once: questions of a group (CHID) get different choices.
    """

    def __init__(self, task: ChoiceTask, split: LoadedSplit, tokenizer: AlbertTokenizer,
                 max_length: int, max_qa_length: int = 128, once: bool = False) -> None:
        self.task, self.split, self.once = task, split, once
        self.main = METRICS[task.metric].main
        self.higher_is_better = METRICS[task.metric].higher_is_better
        self.max_length = max_length
        self.special = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
        examples: list[ChoiceExample] = split.examples
        self.counts = np.array([len(e.choices) for e in examples])  # (N,)
        self.choices = int(self.counts.max())
        self.labels = [e.label for e in examples] if split.labelled else None

        self._passages = _Passages(tokenizer, examples)
        limit = min(max_qa_length, max_length - 3)
        # CHID's blanks share their choices by the dozen: a row of endings is made once.
        rows = {(e.question, e.choices): [ending(e.question, choice, task.cloze)
                                          for choice in e.choices] for e in examples}
        texts = dict.fromkeys(text for row in rows.values() for text in row)
        ids, long = {}, set()
        for text, row in zip(texts, encode(tokenizer, list(texts)), strict=True):
            ids[text] = np.array(row[-limit:], np.int32)
            if len(row) > limit:
                long.add(text)
        arrays = {key: [ids[text] for text in row] for key, row in rows.items()}
        self._endings = [arrays[e.question, e.choices] for e in examples]

        longest = np.array([max(map(len, row)) for row in self._endings])  # (N,)
        whole = np.array([self._passages.length(i) for i in range(len(examples))]) + longest + 3
        self.lengths = np.minimum(whole, max_length)
        self.truncated = int((whole > max_length).sum())
        if self.truncated:
            logger.warning("%s: the passages of %d of %d questions are too long for %d tokens and "
                           "were cut", split.path, self.truncated, len(split), max_length)
        self.cut_endings = sum(not long.isdisjoint(rows[e.question, e.choices]) for e in examples)
        if self.cut_endings:
            logger.warning("%s: question and choice have more than %d tokens in %d of %d "
                           "questions; their beginning was cut", split.path, limit,
                           self.cut_endings, len(split))

    def __len__(self) -> int:
        return len(self._endings)

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, Any]:
        index = key[1] if isinstance(key, tuple) else key
        cls, sep, _ = self.special
        sequences, types = [], []
        for end in self._endings[index]:
            passage = self._passages.part(index, self.max_length - 3 - len(end))
            sequences.append(np.concatenate(([cls], passage, [sep], end, [sep])))
            types.append([0] * (len(passage) + 2) + [1] * (len(end) + 1))
        features = {"input_ids": sequences, "token_type_ids": types}
        if self.labels is not None:
            features["labels"] = self.labels[index]
        return features

    def collate(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """B features -> input_ids, attention_mask, token_type_ids (B, C, T); labels (B,).

        C and T are the largest of this batch. A choice that is not there has a mask of zeros.
        """
        shape = (len(features), max(len(f["input_ids"]) for f in features),
                 max(len(ids) for f in features for ids in f["input_ids"]))
        batch = {"input_ids": np.full(shape, self.special[2]),
                 "attention_mask": np.zeros(shape, np.int64),
                 "token_type_ids": np.zeros(shape, np.int64)}
        for b, feature in enumerate(features):
            for c, ids in enumerate(feature["input_ids"]):
                batch["input_ids"][b, c, :len(ids)] = ids
                batch["attention_mask"][b, c, :len(ids)] = 1
                batch["token_type_ids"][b, c, :len(ids)] = feature["token_type_ids"][c]
        tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
        if "labels" in features[0]:
            tensors["labels"] = torch.tensor([f["labels"] for f in features])
        return tensors

    def keep(self, output: Any) -> np.ndarray:
        """What evaluation remembers of a forward pass: scores, filled up to (B, C of the split)."""
        logits = output.logits.float().cpu().numpy()
        missing = self.choices - logits.shape[1]
        return np.pad(logits, ((0, 0), (0, missing)), constant_values=NEVER)

    # ---- scores and predictions ----------------------------------------------------------------

    def chosen(self, logits: np.ndarray) -> np.ndarray:
        """(N, C) scores -> (N,) choices; with `once` none twice in a group."""
        logits = self._real(logits)
        best = logits.argmax(axis=1)
        if self.once:
            groups = defaultdict(list)
            for i, example in enumerate(self.split.examples):
                groups[example.group if example.group is not None else i].append(i)
            for rows in groups.values():
                best[rows] = assign_once(logits[rows])
        return best

    def score(self, logits: np.ndarray) -> Scores:
        """(N, C) scores -> accuracy, of all and of every part. Raises `MetricError`."""
        predicted = self.chosen(logits)
        labels = self.labels if self.labels is not None else [None] * len(self)
        scores = score(self.task.metric, predicted, labels, self.task.labels)
        values, baseline = dict(scores.values), dict(scores.baseline)
        guess = np.bincount(labels).argmax()
        for name, rows in self._parts().items():
            right = np.asarray(labels)[rows]
            values[f"{self.main}_{name}"] = float((predicted[rows] == right).mean())
            baseline[f"{self.main}_{name}"] = float((right == guess).mean())
        chance = float((1 / self.counts).mean())
        return replace(scores, values=values, baseline=baseline,
                       notes=(*scores.notes, f"a choice at random is right in {chance:.4f}"))

    def loss(self, logits: np.ndarray) -> float:
        """(N, C) scores -> mean cross entropy."""
        real = self._real(logits).astype(np.float64)
        shifted = real - real.max(axis=1, keepdims=True)  # (N, C)
        right = shifted[np.arange(len(self)), np.array(self.labels)]  # (N,)
        return float((np.log(np.exp(shifted).sum(axis=1)) - right).mean())

    def write(self, logits: np.ndarray, path: Path) -> None:
        """Put the predictions of (N, C) scores into the file that the benchmark wants."""
        path.parent.mkdir(parents=True, exist_ok=True)
        predictions = [(example.guid, int(choice)) for example, choice in
                       zip(self.split.examples, self.chosen(logits), strict=True)]
        path.write_text(STYLES[self.task.submission_style](predictions, self.task.labels),
                        encoding="utf-8", newline="\n")

    def _parts(self) -> dict[str, np.ndarray]:
        """Rows of every part, where there are several."""
        rows = defaultdict(list)
        for i, example in enumerate(self.split.examples):
            if example.part is not None:
                rows[example.part].append(i)
        return {name: np.array(rows[name]) for name in sorted(rows)} if len(rows) > 1 else {}

    def _real(self, logits: np.ndarray) -> np.ndarray:
        return np.where(np.arange(self.choices) < self.counts[:, None], logits, NEVER)


# ---- text ----------------------------------------------------------------------------------------


def ending(question: str, choice: str, cloze: bool) -> str:
    """Question and choice as one text; in a cloze question the choice takes the place of every _.

    Spaces are made single first, so that none is left at the ends of either.
    """
    question, choice = " ".join(question.split()), " ".join(choice.split())
    return question.replace("_", choice) if cloze and "_" in question else (
        f"{question} {choice}".strip())


def encode(tokenizer: AlbertTokenizer, texts: Sequence[str], at_once: int = 8192,
           ) -> Iterable[list[int]]:
    """Ids of many texts, a slice at a time: lists of numbers take ten times an array's memory."""
    for at in range(0, len(texts), at_once):
        yield from tokenizer.encode_batch(texts[at:at + at_once])


class _Passages:
    """The ids of every passage, and which part of one a question sees."""

    def __init__(self, tokenizer: AlbertTokenizer, examples: Sequence[ChoiceExample]) -> None:
        unused = tokenizer.convert_tokens_to_ids(["[unused1]"])[0]  # marks a question's own blank
        self.mark = tokenizer.mask_token_id if unused == tokenizer.unk_token_id else unused
        self.other = np.full(MASKS_OF_A_BLANK, tokenizer.mask_token_id, np.int32)
        number = {text: i for i, text in enumerate(dict.fromkeys(e.passage for e in examples))}
        self.number = np.array([number[e.passage] for e in examples])  # (N,)
        with_blanks = {e.passage for e in examples if e.blank is not None}
        pieces = [BLANK.split(text) if text in with_blanks else [text] for text in number]
        ids = iter(encode(tokenizer, [piece for row in pieces for piece in row]))
        self.ids, places = [], []  # of every passage; places: blank -> where its masks begin
        for text, row in zip(number, pieces, strict=True):
            parts, starts, length = [], {}, 0
            blanks = BLANK.findall(text) if len(row) > 1 else []
            for i in range(len(row)):
                parts.append(np.array(next(ids), np.int32))
                length += len(parts[-1])
                if i < len(blanks):
                    starts[blanks[i]] = length
                    parts.append(self.other)
                    length += MASKS_OF_A_BLANK
            self.ids.append(np.concatenate(parts))
            places.append(starts)
        self.starts = [None if e.blank is None else places[n][e.blank]
                       for e, n in zip(examples, self.number, strict=True)]

    def length(self, index: int) -> int:
        """Tokens of the passage of question `index`; its own blank is one."""
        length = len(self.ids[self.number[index]])
        return length if self.starts[index] is None else length - MASKS_OF_A_BLANK + 1

    def part(self, index: int, room: int) -> np.ndarray:
        """What fits of it: the beginning, or what is around the blank."""
        ids, start = self.ids[self.number[index]], self.starts[index]
        if start is None:
            return ids[:room]
        ids = np.concatenate((ids[:start], [self.mark], ids[start + MASKS_OF_A_BLANK:]))
        first = max(0, min(start - room // 2, len(ids) - room))
        return ids[first:first + room]


# ---- choosing and writing ------------------------------------------------------------------------


def assign_once(scores: np.ndarray) -> np.ndarray:
    """(Q, C) scores -> (Q,) choices, no two alike: the best pair first, as in CLUE's baseline.

    Questions for which no choice is left get their best one.
    """
    best = scores.argmax(axis=1)
    open_questions, free = set(range(len(scores))), set(range(scores.shape[1]))
    for place in np.argsort(-scores, axis=None, kind="stable"):
        question, choice = divmod(int(place), scores.shape[1])
        if question in open_questions and choice in free and scores[question, choice] > NEVER:
            best[question] = choice
            open_questions.remove(question)
            free.remove(choice)
    return best


Chosen = Sequence[tuple[str, int]]  # the id of a question and the choice


def _letters(chosen: Chosen, labels: Sequence[str]) -> str:
    return _object({guid: labels[choice] for guid, choice in chosen})


def _numbers(chosen: Chosen, labels: Sequence[str]) -> str:
    return _object(dict(chosen))


def _object(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def _clue(chosen: Chosen, labels: Sequence[str]) -> str:
    """A line a question; an id that is a number in the data stays one."""
    return "".join(json.dumps({"id": int(guid) if guid.isdecimal() else guid, "label": choice},
                              ensure_ascii=False) + "\n" for guid, choice in chosen)


STYLES: dict[str, Callable[[Chosen, Sequence[str]], str]] = {
    "letters": _letters,  # {"middle1.txt-0": "A", …}
    "numbers": _numbers,  # {"#idiom000001#": 3, …}
    "clue": _clue,  # {"id": 0, "label": 3}
}
