"""Scores of answers: by hand, and beside slow implementations written from the definitions."""

from __future__ import annotations

import itertools
import random
import re
import string

import numpy as np
import pytest

from metrics.classification import MetricError
from metrics.squad import (
    ANSWER_METRICS,
    CMRC_MARKS,
    best_threshold,
    cmrc_exact,
    cmrc_f1,
    cmrc_segments,
    longest_common_run,
    normalize_answer,
    score_answers,
    squad_exact,
    squad_f1,
    squad_v2_f1,
)

# ---- by hand -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "wanted"), [
    ("The  Panthers!", "panthers"), ("a an the", ""), ("U.S.A.", "usa"), ("theatre", "theatre"),
    ("the-end", "theend"), ("An answer\n(the)", "answer"), ("½ – “x”", "½ – “x”")])
def test_answers_are_normalised_as_squad_does(text, wanted):
    assert normalize_answer(text) == wanted


@pytest.mark.parametrize(("predicted", "gold", "exact", "f1"), [
    ("the Panthers", "Panthers.", 1, 1),
    ("Denver Broncos", "the Denver Broncos team", 0, 0.8),  # 2 of 2 and 2 of 3 words
    ("in 1990", "1991", 0, 0),
    ("b b c", "b c c", 0, 2 / 3),  # words count as often as both have them
    ("", "x", 0, 0)])
def test_squad_by_hand(predicted, gold, exact, f1):
    assert squad_exact(predicted, gold) == exact
    assert squad_f1(predicted, gold) == pytest.approx(f1)


def test_texts_without_words_are_where_the_two_versions_differ():
    assert squad_exact("the", "a") == 1
    assert squad_f1("the", "a") == 0 and squad_v2_f1("the", "a") == 1
    assert squad_v2_f1("the", "b") == 0


def test_the_best_of_several_gold_answers_counts():
    assert ANSWER_METRICS["squad"].score("two dogs", ["dogs", "two", "two dogs"]) == (1, 1)
    assert ANSWER_METRICS["squad"].score("two dogs", ["dogs", "cats"]) == (
        0, pytest.approx(2 / 3))


@pytest.mark.parametrize(("predicted", "gold", "exact", "f1"), [
    ("光荣", "光荣。", 1, 1),  # marks do not count
    ("《三国志》", "三国志", 1, 1),
    ("由光荣和", "光荣", 0, 2 * 2 / 6),
    ("光和荣", "光荣", 0, 2 * 1 / 5),  # the run must be without a gap: one character
    ("ω-force", "ωforce", 1, 1),
    ("iPhone 5s", "iphone 5S 手机", 0, 2 * 2 / 6),  # words of other scripts are whole
    ("3,219个", "3,219", 0, 2 * 1 / 3),
    ("中国", "美洲", 0, 0)])
def test_cmrc_by_hand(predicted, gold, exact, f1):
    assert cmrc_exact(predicted, gold) == exact
    assert cmrc_f1(predicted, gold) == pytest.approx(f1)


def test_cmrc_segments():
    assert cmrc_segments(" 《Ab c》是40.5%。") == ("ab", "c", "是", "40.5", "%")
    assert cmrc_segments("x-y，z") == ("xyz",)  # as the published script joins them
    assert cmrc_segments("Bachelor's (Hons.) at 1–2") == (
        "bachelor", "'s", "(", "hons.", ")", "at", "1", "–", "2")
    assert cmrc_segments("last words.") == ("last", "words", ".")


def test_a_threshold_by_hand():
    # Odds -2 and 0 are answered rightly, 1 has no answer, 3 is answered wrongly.
    scores, odds = np.array([1.0, 1.0, 0.0, 0.0]), np.array([-2.0, 0.0, 1.0, 3.0])
    answerable = np.array([True, True, False, True])
    assert best_threshold(scores, odds, answerable) == (0.75, 0.0)
    # Where it is best to answer nothing, no odds are below the threshold.
    best, threshold = best_threshold(scores, odds, np.zeros(4, bool))
    assert best == 1 and threshold < -2


def test_squad_v2_by_hand():
    scores = score_answers("squad-v2", ["red fox", "blue", "old", ""],
                           [["the red fox", "fox"], [], ["new"], ["x"]], [-1.0, 2.0, -3.0, 0.0])
    values = scores.values
    assert values["best_f1"] == values["f1"] == 0.5 and values["threshold"] == -1.0
    assert values["HasAns_exact"] == pytest.approx(1 / 3) and values["NoAns_f1"] == 1
    assert scores.baseline["f1"] == 0.25 and scores.baseline["HasAns_f1"] == 0
    fixed = score_answers("squad-v2", ["red fox", "blue", "old", ""],
                          [["the red fox", "fox"], [], ["new"], ["x"]], [-1.0, 2.0, -3.0, 0.0], 9.0)
    assert fixed.values["NoAns_exact"] == 0 and fixed.values["exact"] == 0.25
    assert fixed.values["best_exact"] == 0.5 and fixed.values["threshold"] == 9


def test_a_guess_and_a_collapse():
    scores = score_answers("squad", ["x", "x"], [["x"], ["y"]])
    assert scores.value == 0.5 and scores.baseline == {"exact": 0, "f1": 0}
    assert scores.collapsed and 'all 2 predictions are "x"' in scores.notes[0]
    assert not score_answers("squad", ["x", "y"], [["x"], ["y"]]).collapsed


@pytest.mark.parametrize(("arguments", "message"), [
    (("squad-v3", ["x"], [["x"]]), "no metric 'squad-v3'; there are: squad, squad-v2, cmrc2018"),
    (("squad", ["x"], []), "1 predictions for 0 questions"),
    (("squad", [], []), "no questions"),
    (("squad", ["x", "y"], [["x"], []]), "1 of 2 questions have no gold answer"),
    (("squad-v2", ["x"], [["x"]]), "0 null odds for 1 questions"),
    (("squad-v2", ["x"], [["x"]], [float("nan")]), "the model has diverged")])
def test_what_has_no_score_is_refused(arguments, message):
    with pytest.raises(MetricError, match=re.escape(message)):
        score_answers(*arguments)


# ---- beside slow implementations from the definitions ------------------------------------------

ENGLISH = ["a", "the", "An", "fox", "Fox,", "den", "den.", "(red)", "U.S.", "x", "-", " ", "1990"]
CHINESE = [*"光荣三国志的是", "，", "。", "《", "-", "_", "fox", " ", "9", ".5", "…"]


def random_texts(words: list[str], joint: str, seed: int, count: int = 300) -> list[str]:
    rng = random.Random(seed)
    return [joint.join(rng.choices(words, k=rng.randint(0, 6))) for _ in range(count)]


def slow_words(text: str) -> list[str]:
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return [w for w in re.findall(r"\S+", kept) if w not in ("a", "an", "the")]


def slow_f1(said: list, wanted: list, shared: int) -> float:
    if not shared:
        return 0.0
    precision, recall = shared / len(said), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def slow_squad(predicted: str, gold: str) -> tuple[float, float]:
    said, wanted = slow_words(predicted), slow_words(gold)
    left, shared = list(wanted), 0
    for word in said:
        if word in left:
            left.remove(word)
            shared += 1
    return float(said == wanted), slow_f1(said, wanted, shared)


def slow_run(first: tuple, second: tuple) -> int:
    """By trying every run of the first."""
    runs = [first[i:j] for i in range(len(first)) for j in range(i, len(first) + 1)]
    inside = {second[i:j] for i in range(len(second)) for j in range(i, len(second) + 1)}
    return max((len(run) for run in runs if run in inside), default=0)


def slow_cmrc(predicted: str, gold: str) -> tuple[float, float]:
    bare = ["".join(c for c in text.lower().strip() if c not in CMRC_MARKS)
            for text in (predicted, gold)]
    said, wanted = cmrc_segments(predicted), cmrc_segments(gold)
    return float(bare[0] == bare[1]), slow_f1(said, wanted, slow_run(said, wanted))


@pytest.mark.parametrize(("metric", "words", "joint", "slow"), [
    ("squad", ENGLISH, " ", slow_squad), ("cmrc2018", CHINESE, "", slow_cmrc)])
def test_scores_are_those_of_the_definition(metric, words, joint, slow):
    predicted = random_texts(words, joint, 1)
    golds = [list(g) for g in zip(random_texts(words, joint, 2), random_texts(words, joint, 3),
                                  strict=True)]
    wanted = np.array([np.max([slow(text, gold) for gold in some], axis=0)
                       for text, some in zip(predicted, golds, strict=True)])
    assert 0.02 < wanted[:, 0].mean() < wanted[:, 1].mean() < 0.9  # no trivial inputs
    values = score_answers(metric, predicted, golds).values
    assert values == pytest.approx({"exact": wanted[:, 0].mean(), "f1": wanted[:, 1].mean()})


def test_the_longest_run_is_that_of_the_definition():
    rng = random.Random(0)
    for _ in range(300):
        first, second = (tuple(rng.choices("abc", k=rng.randint(0, 9))) for _ in range(2))
        assert longest_common_run(first, second) == slow_run(first, second)


def slow_v2(predicted: list[str], golds: list[list[str]], odds: list[float], threshold: float,
            ) -> dict[str, float]:
    """Scores at one threshold, question by question."""
    rows = []
    for text, some, value in zip(predicted, golds, odds, strict=True):
        if value > threshold:
            rows.append((bool(some), float(not some), float(not some)))
            continue
        worded = [gold for gold in some if slow_words(gold)] or [""]
        pairs = [slow_squad(text, gold) for gold in worded]
        if worded == [""]:
            pairs = [(float(not slow_words(text)), float(not slow_words(text)))]
        rows.append((bool(some), *np.max(pairs, axis=0)))
    table = np.array(rows, dtype=float)
    has = table[:, 0] == 1
    return {"exact": table[:, 1].mean(), "f1": table[:, 2].mean(),
            "HasAns_exact": table[has, 1].mean(), "HasAns_f1": table[has, 2].mean(),
            "NoAns_exact": table[~has, 1].mean(), "NoAns_f1": table[~has, 2].mean()}


@pytest.mark.parametrize("ties", [False, True])
def test_squad_v2_and_its_thresholds_are_those_of_the_definition(ties):
    for seed in range(20):
        rng = random.Random(seed)
        golds = [[] if rng.random() < 0.5 else rng.choices(ENGLISH, k=2) for _ in range(40)]
        predicted = [rng.choice([*gold, *ENGLISH]) if rng.random() < 0.9 else "" for gold in golds]
        odds = [float(rng.randint(-3, 3)) if ties else rng.gauss(0, 1) for _ in golds]
        values = score_answers("squad-v2", predicted, golds, odds).values
        candidates = [min(odds) - 1, *odds]  # below all odds nothing is answered
        for name in ("exact", "f1"):
            best = max(slow_v2(predicted, golds, odds, t)[name] for t in candidates)
            assert values[f"best_{name}"] == pytest.approx(best)
            at = slow_v2(predicted, golds, odds, values[f"best_{name}_threshold"])
            assert at[name] == pytest.approx(best)
        assert values["threshold"] == values["best_f1_threshold"]
        wanted = slow_v2(predicted, golds, odds, values["threshold"])
        assert {name: values[name] for name in wanted} == pytest.approx(wanted)


def test_the_threshold_is_that_of_the_published_sweep():
    """Without ties the sweep walks up the odds and keeps the first highest sum."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        scores, odds = rng.random(30), rng.normal(size=30)
        answerable = rng.random(30) < 0.6
        total = best = float((~answerable).sum())
        wanted = None
        for i in np.argsort(odds):
            total += scores[i] if answerable[i] else -1
            if total > best:
                best, wanted = total, odds[i]
        got = best_threshold(np.where(answerable, scores, 0), odds, answerable)
        assert got[0] == pytest.approx(best / 30)
        assert wanted is None or got[1] == wanted


def test_answers_of_real_files_score_full_marks_against_themselves(shared):
    import json
    for file, metric in (("xquad/xquad.en.json", "squad"), ("xquad/xquad.zh.json", "cmrc2018"),
                         ("cmrc2018/cmrc2018_dev.json", "cmrc2018")):
        articles = json.loads(shared(f"data/{file}").read_text(encoding="utf-8"))["data"]
        golds = [[answer["text"] for answer in question["answers"]]
                 for article in itertools.islice(articles, 100)
                 for paragraph in article["paragraphs"] for question in paragraph["qas"]]
        values = score_answers(metric, [gold[-1] for gold in golds], golds).values
        assert values == {"exact": 1, "f1": 1}, file
