"""Answers that are spans of text: exact match and F1.

Three published evaluations, of SQuAD 1.1, of SQuAD 2.0 (questions without an answer, found by a
threshold) and of CMRC 2018 (Chinese). Values are shares, 0 to 1; the published scripts give the
same times 100. With several gold answers the best counts.

A question that has no answer has no gold answers; a prediction of "" says that there is none.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from metrics.classification import MetricError, Scores

# ---- SQuAD -------------------------------------------------------------------------------------

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def squad_exact(predicted: str, gold: str) -> float:
    return float(normalize_answer(predicted) == normalize_answer(gold))


def squad_f1(predicted: str, gold: str) -> float:
    """F1 over words, of SQuAD 1.1: 0 where they share none, even if both have none."""
    said, wanted = normalize_answer(predicted).split(), normalize_answer(gold).split()
    shared = sum((Counter(said) & Counter(wanted)).values())
    return 2 * shared / (len(said) + len(wanted)) if shared else 0.0


def squad_v2_f1(predicted: str, gold: str) -> float:
    """As `squad_f1`, but 1 where both have no word, as SQuAD 2.0 counts it."""
    if not normalize_answer(predicted) and not normalize_answer(gold):
        return 1.0
    return squad_f1(predicted, gold)


# ---- CMRC 2018 ---------------------------------------------------------------------------------

# The marks that its script leaves out. "…" and ASCII ( ) , . stay, as there.
CMRC_MARKS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_CHINESE = re.compile("[\u4e00-\u9fa5]")  # a word each
# Other text is cut as the Penn Treebank does: marks apart, "," and ":" not before a digit, a full
# stop only at the end, an apostrophe at the end of a word or with what it shortens.
_APART = r";@#$%&?!\[\](){}<>\"–—\s"
_SHORT = r"(?:s|m|d|re|ll|ve)?(?!\w)"
_TREEBANK = re.compile(rf"\.\.\.|'{_SHORT}"
                       rf"|(?:[^{_APART},:.']|[,:](?=\d)|\.(?!\.\.|\s*$)|'(?!{_SHORT}))+|\S")


def cmrc_exact(predicted: str, gold: str) -> float:
    return float(_without_marks(predicted) == _without_marks(gold))


def cmrc_f1(predicted: str, gold: str) -> float:
    """F1 by the longest run of segments that both have; a Chinese character is a segment."""
    said, wanted = cmrc_segments(predicted), cmrc_segments(gold)
    shared = longest_common_run(said, wanted)
    return 2 * shared / (len(said) + len(wanted)) if shared else 0.0


@lru_cache(maxsize=1 << 15)
def cmrc_segments(text: str) -> tuple[str, ...]:
    """Chinese characters one by one, other text in words, without the marks of `CMRC_MARKS`.

    The published script cuts other text with NLTK, which knows a few English forms more ("cannot",
    "don't"); in the gold answers of CMRC 2018 the two agree.
    """
    segments: list[str] = []
    run: list[str] = []
    for character in [*text.lower().strip(), None]:
        if character is not None and character in CMRC_MARKS:
            continue  # words on both sides of a mark become one, as in the published script
        if character is not None and not _CHINESE.match(character):
            run.append(character)
            continue
        segments += _TREEBANK.findall("".join(run))
        run.clear()
        if character is not None:
            segments.append(character)
    return tuple(segments)


def longest_common_run(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest sequence that stands in both without a gap."""
    if tuple(first) == tuple(second):
        return len(first)
    ids = {segment: number for number, segment in enumerate(dict.fromkeys(second))}
    columns = np.array([ids[segment] for segment in second], dtype=np.int64)
    longest = 0
    ending = np.zeros(len(second) + 1, dtype=np.int64)  # [j + 1]: of the run that ends at j
    for segment in first:
        new = np.zeros_like(ending)
        new[1:] = np.where(columns == ids.get(segment, -1), ending[:-1] + 1, 0)
        longest, ending = max(longest, int(new.max())), new
    return longest


def _without_marks(text: str) -> str:
    return "".join(c for c in text.lower().strip() if c not in CMRC_MARKS)


# ---- a data set --------------------------------------------------------------------------------

PairScore = Callable[[str, str], float]  # prediction, gold answer -> 0 to 1


@dataclass(frozen=True)
class AnswerMetric:
    """How one question is scored; `ANSWER_METRICS` holds them by name."""

    exact: PairScore
    f1: PairScore
    may_be_unanswerable: bool = False

    def score(self, predicted: str, golds: Sequence[str]) -> tuple[float, float]:
        """Exact match and F1 of one prediction, the best over the gold answers ("" if none)."""
        wanted = list(dict.fromkeys(golds))
        if self.may_be_unanswerable:  # a gold answer of punctuation alone says nothing
            wanted = [gold for gold in wanted if normalize_answer(gold)] or [""]
        return (max(self.exact(predicted, gold) for gold in wanted),
                max(self.f1(predicted, gold) for gold in wanted))


ANSWER_METRICS: dict[str, AnswerMetric] = {
    "squad": AnswerMetric(squad_exact, squad_f1),
    "squad-v2": AnswerMetric(squad_exact, squad_v2_f1, may_be_unanswerable=True),
    "cmrc2018": AnswerMetric(cmrc_exact, cmrc_f1),
}


def best_threshold(scores: np.ndarray, odds: np.ndarray, answerable: np.ndarray,
                   ) -> tuple[float, float]:
    """The best mean score that a threshold on null odds can give, and that threshold.

    scores: (N,) score of each prediction, were it given as the answer. odds: (N,) the higher, the
    surer that there is none. answerable: (N,) whether there is. A question counts as answered
    while its odds are not above the threshold; not to answer an unanswerable one scores 1.

    This is `find_best_thresh` of SQuAD 2.0, made exact where its sum is not the score at its
    threshold: equal odds are answered together, if it is best to answer nothing, the threshold
    lies below all odds, and a prediction of "the" alone answers nothing.
    """
    gain = scores - ~answerable
    order = np.argsort(odds, kind="stable")
    sorted_odds = odds[order]
    total = np.concatenate([[0.0], np.cumsum(gain[order])])  # [k]: the k lowest are answered
    total += (~answerable).sum()
    last_of_equals = np.append(sorted_odds[1:] != sorted_odds[:-1], True)
    possible = np.concatenate([[True], last_of_equals])
    best = int(np.where(possible, total, -np.inf).argmax())
    threshold = sorted_odds[best - 1] if best else sorted_odds[0] - 1.0
    return float(total[best] / len(odds)), float(threshold)


def score_answers(metric: str, predicted: Sequence[str], golds: Sequence[Sequence[str]],
                  null_odds: Sequence[float] | np.ndarray | None = None,
                  threshold: float | None = None) -> Scores:
    """Exact match and F1 (which decides) of N questions.

    metric: of `ANSWER_METRICS`. predicted: the best answer to each question. golds: its gold
    answers, none where it has no answer. null_odds: for "squad-v2"; predictions whose odds are
    above the threshold count as "no answer". threshold: left out, the one with the best F1.

    Values of squad-v2: also HasAns_ and NoAns_ (where there are such questions), best_exact and
    best_f1 with the thresholds that give them, and the threshold used.
    Raises `MetricError` for an unknown metric, no questions, lengths that differ, odds that are
    missing or not finite, and questions without an answer where the metric knows none.
    """
    chosen = ANSWER_METRICS.get(metric)
    if chosen is None:
        raise MetricError(f"no metric {metric!r}; there are: {', '.join(ANSWER_METRICS)}")
    if len(predicted) != len(golds):
        raise MetricError(f"found {len(predicted)} predictions for {len(golds)} questions")
    if not len(golds):
        raise MetricError("found no questions, expected at least 1")
    unanswerable = sum(not gold for gold in golds)
    if unanswerable and not chosen.may_be_unanswerable:
        raise MetricError(f"{unanswerable} of {len(golds)} questions have no gold answer: a score "
                          "needs one for each")
    if chosen.may_be_unanswerable:
        values = _score_v2(chosen, predicted, golds, null_odds, threshold)
        baseline = dict.fromkeys(values, 0.0) | {
            name: unanswerable / len(golds) for name in ("exact", "f1", "best_exact", "best_f1")}
        baseline |= {name: 1.0 for name in ("NoAns_exact", "NoAns_f1") if name in values}
        said = ["" if odds > values["threshold"] else text
                for text, odds in zip(predicted, null_odds, strict=True)]
    else:
        pairs = np.array([chosen.score(*pair) for pair in zip(predicted, golds, strict=True)])
        values = {"exact": float(pairs[:, 0].mean()), "f1": float(pairs[:, 1].mean())}
        baseline, said = {"exact": 0.0, "f1": 0.0}, predicted
    notes = []
    collapsed = len(set(said)) == 1 and len({tuple(gold) for gold in golds}) > 1
    if collapsed:
        notes.append(f'collapsed: all {len(said)} predictions are "{said[0]}"')
    return Scores(values=values, baseline=baseline, baseline_guess='always "" (no answer)',
                  main="f1", examples=len(golds), collapsed=collapsed, notes=tuple(notes))


def _score_v2(metric: AnswerMetric, predicted: Sequence[str], golds: Sequence[Sequence[str]],
              null_odds: Sequence[float] | np.ndarray | None, threshold: float | None,
              ) -> dict[str, float]:
    if null_odds is None or len(null_odds) != len(golds):
        raise MetricError(f"found {0 if null_odds is None else len(null_odds)} null odds for "
                          f"{len(golds)} questions")
    odds = np.asarray(null_odds, dtype=np.float64)
    if not np.isfinite(odds).all():
        raise MetricError(f"{int((~np.isfinite(odds)).sum())} of {len(odds)} null odds are not "
                          "finite numbers: the model has diverged (lower the learning rate)")
    answerable = np.array([bool(gold) for gold in golds])
    raw = np.array([metric.score(*pair) for pair in zip(predicted, golds, strict=True)])  # (N, 2)
    best_exact, exact_threshold = best_threshold(raw[:, 0], odds, answerable)
    best_f1, f1_threshold = best_threshold(raw[:, 1], odds, answerable)
    threshold = f1_threshold if threshold is None else threshold
    # Not to answer is right where there is no answer.
    final = np.where((odds > threshold)[:, None], (~answerable)[:, None].astype(float), raw)
    values = {"exact": float(final[:, 0].mean()), "f1": float(final[:, 1].mean())}
    for name, which in (("HasAns", answerable), ("NoAns", ~answerable)):
        if which.any():
            values |= {f"{name}_exact": float(final[which, 0].mean()),
                       f"{name}_f1": float(final[which, 1].mean())}
    return values | {"best_exact": best_exact, "best_exact_threshold": exact_threshold,
                     "best_f1": best_f1, "best_f1_threshold": f1_threshold,
                     "threshold": float(threshold)}
