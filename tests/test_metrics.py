"""Metrics: equal to scikit-learn and SciPy, and defined where those are not."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk

from metrics.classification import METRICS, MetricError, score


@pytest.mark.parametrize("seed", range(20))
def test_classification_equals_scikit_learn_on_random_inputs(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 60))
    labels, predicted = rng.integers(0, 2, (2, count))
    labels[:2] = predicted[:2] = 0, 1
    assert score("accuracy", predicted, labels).value == sk.accuracy_score(labels, predicted)
    assert score("f1", predicted, labels).value == sk.f1_score(labels, predicted)
    assert score("macro_f1", predicted, labels).value == sk.f1_score(
        labels, predicted, average="macro")
    assert score("matthews", predicted, labels).value == sk.matthews_corrcoef(labels, predicted)
    both = score("accuracy_and_f1", predicted, labels)
    assert both.value == (sk.accuracy_score(labels, predicted)
                          + sk.f1_score(labels, predicted)) / 2


@pytest.mark.parametrize("seed", range(10))
def test_several_classes_equal_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    labels, predicted = rng.integers(0, 7, (2, 53))
    assert score("accuracy", predicted, labels).value == sk.accuracy_score(labels, predicted)
    assert score("macro_f1", predicted, labels).value == sk.f1_score(
        labels, predicted, average="macro")
    assert score("matthews", predicted, labels).value == sk.matthews_corrcoef(labels, predicted)


@pytest.mark.parametrize("seed", range(10))
def test_regression_equals_scipy_on_random_inputs(seed):
    rng = np.random.default_rng(seed)
    labels = np.round(rng.uniform(0, 5, 41), 1)  # ties, as in STS-B
    predicted = labels + rng.normal(0, 1 + seed, 41)
    got = score("pearson_and_spearman", predicted, labels).values
    assert got["pearson"] == stats.pearsonr(predicted, labels)[0]
    assert got["spearman"] == stats.spearmanr(predicted, labels)[0]
    assert got["mse"] == sk.mean_squared_error(labels, predicted)
    assert got["pearson_and_spearman"] == (got["pearson"] + got["spearman"]) / 2


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(("predicted", "labels"), [
    ([1, 1, 1, 1], [0, 1, 1, 0]),
    ([0, 0, 0, 0], [0, 1, 1, 0]),
    ([0, 1, 1, 0], [1, 1, 1, 1]),
    ([0, 0, 0, 0], [0, 0, 0, 0]),
    ([1, 1], [1, 1]),
    ([1], [0]),
    ([1], [1]),
])
def test_degenerate_inputs_give_defined_values_without_warnings(name, predicted, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = score(name, predicted, labels)
    for value in [*result.values.values(), *result.baseline.values()]:
        assert isinstance(value, float) and math.isfinite(value)


def test_f1_without_a_positive_is_zero():
    assert score("f1", [0, 0, 0], [0, 0, 0]).value == 0.0
    assert score("f1", [0, 0, 0], [0, 1, 0]).value == 0.0
    assert score("accuracy_and_f1", [0, 0], [0, 0]).values["f1"] == 0.0


def test_constant_predictions_are_noted_as_a_collapse():
    result = score("accuracy", [1, 1, 1], [0, 1, 1], label_names=["no", "yes"])
    assert result.collapsed
    assert result.notes == ('collapsed: all 3 predictions are "yes"',)
    assert score("pearson_and_spearman", [2.5, 2.5], [1.0, 3.8]).collapsed
    assert not score("accuracy", [1, 1, 1], [1, 1, 1]).collapsed
    assert not score("accuracy", [1, 0, 1], [0, 1, 1]).collapsed


def test_constant_regression_scores_zero_and_constant_labels_are_noted():
    result = score("pearson_and_spearman", [2.0, 2.0, 2.0], [1.0, 2.0, 4.0])
    assert result.values["pearson"] == result.values["spearman"] == 0.0
    result = score("pearson_and_spearman", [2.0, 1.0, 2.0], [3.0, 3.0, 3.0])
    assert result.value == 0.0
    assert "all labels are 3" in result.notes[0]


def test_row_41_the_majority_baseline_stands_beside_each_score():
    labels = [0] * 3 + [1] * 7
    result = score("accuracy", [1, 0] * 5, labels, label_names=["no", "yes"])
    assert result.baseline == {"accuracy": 0.7}
    assert result.baseline_guess == 'always "yes"'
    both = score("accuracy_and_f1", [1, 0] * 5, labels)
    assert both.baseline["f1"] == sk.f1_score(labels, [1] * 10)
    assert score("matthews", [1, 0] * 5, labels).baseline["matthews"] == 0.0


def test_the_baseline_of_a_regression_is_the_mean():
    result = score("pearson_and_spearman", [1.0, 2.0, 3.0], [1.0, 2.0, 6.0])
    assert result.baseline["mse"] == pytest.approx(np.var([1.0, 2.0, 6.0]))
    assert result.baseline["pearson"] == 0.0
    assert result.baseline_guess == "always 3"


@pytest.mark.parametrize("labels", [[0, None, 1], [0, -100, 1], [0.0, float("nan"), 1.0]])
def test_row_41_a_metric_on_unlabelled_data_is_refused(labels):
    with pytest.raises(MetricError, match="1 of 3 examples have no label"):
        score("accuracy", [0, 1, 1], labels)


@pytest.mark.parametrize(("arguments", "message"), [
    (("accuracy", [], []), "no examples, expected at least 1"),
    (("accuracy", [1], [1, 0]), "1 predictions for 2 labels"),
    (("acuracy", [1], [1]), "no metric 'acuracy'; there are: accuracy"),
    (("f1", [0, 1, 2], [0, 1, 2]), "two classes, found 3; macro_f1"),
    (("pearson_and_spearman", [1.0, float("nan")], [1.0, 2.0]), "1 of 2 predictions are not fin"),
    (("pearson_and_spearman", [1.0, float("inf")], [1.0, 2.0]), "1 of 2 predictions are not fin"),
    (("accuracy", [0.5, 1.5], [0, 1]), "predictions are of type float64, expected class ids"),
    (("accuracy", [[0, 1]], [[0, 1]]), "one prediction and one label an example"),
])
def test_bad_input_is_one_clear_error(arguments, message):
    with pytest.raises(MetricError, match=message):
        score(*arguments)


def test_regression_labels_stay_floats():
    assert score("mse", [3.8], [3.8]).value == 0.0
    assert score("mse", [3.0], [3.8]).value == pytest.approx(0.64)
