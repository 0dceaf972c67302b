"""Questions on a passage: files in the form of SQuAD, and the data sets as rows.

The form is that of SQuAD 1.1 and 2.0, CMRC 2018, DRCD and XQuAD:

    {"data": [{"paragraphs": [{"context": …, "qas": [{"id": …, "question": …,
        "answers": [{"text": …, "answer_start": …}], "is_impossible": …}]}]}]}

`answer_start` counts characters from 0. A file to predict needs no answers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processors.base import Task
from processors.readers import DataError, read_text

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """A gold answer, and where its file says that it begins."""

    text: str
    start: int

    def stands_in(self, passage: str) -> bool:
        """Whether the text is where the file says."""
        return self.start >= 0 and passage.startswith(self.text, self.start)


@dataclass(slots=True)
class Question:
    guid: str
    text: str
    passage: int  # index of SpanSplit.passages
    answers: list[Answer] = field(default_factory=list)
    is_impossible: bool = False  # the passage does not answer it


@dataclass
class SpanSplit:
    """What one file gave. A passage is kept once, however many questions it has."""

    name: str
    path: Path
    passages: list[str]
    questions: list[Question]
    labelled: bool  # every question has an answer, or is marked as having none
    part: str = "dev"  # train, dev or test
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.questions)


def load_squad(path: Path, name: str, part: str = "dev", unanswerable: bool = False) -> SpanSplit:
    """Read a file.

    part: "train", "dev", or "test" for a file to predict, whose questions need no answers.
    unanswerable: whether questions may have no answer, as in SQuAD 2.0.

    A training file loses the questions whose answer does not stand where it should, which is
    counted and told; other files keep them all, since their gold texts are what scores compare.
    Raises `DataError` for what is not in the form of SQuAD, an id that occurs twice, questions
    without an answer where there must be one, and a training file of which nothing is left.
    """
    passages: list[str] = []
    questions: list[Question] = []
    places: list[str] = []
    seen: dict[str, str] = {}
    for place, context, items in _paragraphs(path):
        passages.append(context)
        for number, item in enumerate(items, start=1):
            where = f"{place}, question {number}"
            question = _question(item, where, len(passages) - 1)
            if question.guid in seen:
                raise DataError(f"{where}: the id {question.guid!r} is also that of "
                                f"{seen[question.guid].removeprefix(f'{path}, ')}; ids have to "
                                "differ, since predictions go by them")
            seen[question.guid] = where
            questions.append(question)
            places.append(where)
    if not questions:
        raise DataError(f"{path}: no question in it, expected at least one")
    split = SpanSplit(name, path, passages, questions, True, part)
    _check_answers(split, places, unanswerable)
    if part == "train":
        _drop_misplaced(split)
    return split


def _check_answers(split: SpanSplit, places: list[str], unanswerable: bool) -> None:
    """Settle whether the split is labelled."""
    for question, place in zip(split.questions, places, strict=True):
        if question.is_impossible and not unanswerable:
            raise DataError(f"{place}: is_impossible, a question without an answer as in SQuAD "
                            "2.0; give --version_2_with_negative")
    without = [place for question, place in zip(split.questions, places, strict=True)
               if not question.answers and not question.is_impossible]
    split.labelled = not without
    if without and (split.part != "test" or len(without) < len(places)):
        raise DataError(f"{without[0]}: no answer, as {len(without)} of {len(places)} questions "
                        "have none; expected one for each, or is_impossible")
    if split.part == "test" and split.labelled and not any(
            answer.text in split.passages[question.passage]
            for question in split.questions for answer in question.answers
    ) and not any(question.is_impossible for question in split.questions):
        split.labelled = False  # hidden test sets carry stand-ins such as "FAKE_ANSWER_1"
        split.notes.append("none of its answers occurs in its passage, so they are not taken for "
                           "answers")
        logger.warning("%s: %s", split.path, split.notes[-1])


def _drop_misplaced(split: SpanSplit) -> None:
    kept, examples = [], []
    for question in split.questions:
        passage = split.passages[question.passage]
        placed = [answer for answer in question.answers if answer.stands_in(passage)]
        if placed or question.is_impossible:
            question.answers = placed
            kept.append(question)
        else:
            examples.append(f"{question.guid} ({question.answers[0].text[:20]!r} at "
                            f"{question.answers[0].start})")
    if not kept:
        raise DataError(f"{split.path}: none of {len(split)} answers stands in its passage where "
                        f"answer_start says, such as {', '.join(examples[:3])}; does it count "
                        "characters from 0?")
    if examples:
        split.notes.append(f"{len(examples)} of {len(split)} questions are left out: their answer "
                           "does not stand in the passage where answer_start says, such as "
                           f"{', '.join(examples[:3])}")
        logger.warning("%s: %s", split.path, split.notes[-1])
    split.questions = kept


# ---- reading -----------------------------------------------------------------------------------


def _paragraphs(path: Path) -> Iterator[tuple[str, str, list[Any]]]:
    """Where each paragraph stands, its text, its questions."""
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}: broken JSON ({error.msg} at column "
                        f"{error.colno}); is the file complete?") from None
    articles = _get(content, "data", list, str(path))
    for article_number, article in enumerate(articles, start=1):
        where = f"{path}, article {article_number}"
        for number, paragraph in enumerate(_get(article, "paragraphs", list, where), start=1):
            place = f"{where}, paragraph {number}"
            yield (place, _get(paragraph, "context", str, place),
                   _get(paragraph, "qas", list, place))


def _question(item: Any, where: str, passage: int) -> Question:
    text = _get(item, "question", str, where)
    guid = _get(item, "id", (str, int), where)
    impossible = _get(item, "is_impossible", bool, where, default=False)
    answers = []
    for number, answer in enumerate(_get(item, "answers", list, where, default=[]), start=1):
        place = f"{where}, answer {number}"
        found = Answer(_get(answer, "text", str, place), _get(answer, "answer_start", int, place))
        if not found.text.strip():
            raise DataError(f"{place}: the text is {found.text!r}, expected words; a question "
                            "without an answer has \"is_impossible\": true and \"answers\": []")
        answers.append(found)
    if impossible and answers:
        raise DataError(f"{where}: is_impossible, and has the answer {answers[0].text[:40]!r}; "
                        "expected one of the two")
    return Question(str(guid), text, passage, answers, impossible)


def _get(item: Any, key: str, kind: type | tuple[type, ...], where: str,
         default: Any = None) -> Any:
    """`item[key]`, of the kind that it must be."""
    if not isinstance(item, dict):
        raise DataError(f"{where}: found {_shown(item)}, expected an object with \"{key}\"")
    if key not in item and default is not None:
        return default
    value = item.get(key)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        names = " or ".join(_KINDS[k] for k in (kind if isinstance(kind, tuple) else (kind,)))
        found = f"\"{key}\" is {_shown(value)}" if key in item else (
            f"no \"{key}\", only {', '.join(map(str, list(item)[:8])) or 'nothing'}")
        raise DataError(f"{where}: {found}; expected {names}, in the form of SQuAD")
    return value


_KINDS = {str: "a text", int: "a whole number", bool: "true or false", list: "a list"}


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


# ---- the data sets -----------------------------------------------------------------------------


def span_task(name: str, metric: str, train: tuple[str, ...], dev: tuple[str, ...],
              test: tuple[str, ...], submission: str = "predictions.json") -> Task:
    """A row; metric is one of `metrics.squad.ANSWER_METRICS`."""
    return Task(name=name, columns={}, labels=None, metric=metric, train=train, dev={name: dev},
                test={name: test}, head="question_answering", submission={name: submission})


# SQuAD's own test sets are not public: what is predicted is the dev file.
TASKS: dict[str, Task] = {task.name: task for task in (
    span_task("squad", "squad", train=("train-v1.1.json",), dev=("dev-v1.1.json",),
              test=("dev-v1.1.json",)),
    span_task("squad-v2", "squad-v2", train=("train-v2.0.json",), dev=("dev-v2.0.json",),
              test=("dev-v2.0.json",)),
    # Simplified Chinese.
    span_task("cmrc2018", "cmrc2018", train=("cmrc2018_train.json", "train.json"),
              dev=("cmrc2018_dev.json", "dev.json"),
              test=("cmrc2018_test.json", "test.json", "cmrc2018_trial.json", "trial.json"),
              submission="cmrc2018_predict.json"),
    # Traditional Chinese; scored as CMRC 2018.
    span_task("drcd", "cmrc2018", train=("DRCD_training.json", "train.json"),
              dev=("DRCD_dev.json", "dev.json"), test=("DRCD_test.json", "test.json")),
)}
