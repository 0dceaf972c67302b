"""Scores of classes and of numbers, each beside the score of a constant guess.

A metric is a function of two arrays, predictions and labels, and returns named values. The numbers
are scikit-learn's and SciPy's; where those leave a score undefined (a correlation with a constant,
an F1 without a positive), it is 0.0, as a constant guess has earned, and a note says so. No NaN
leaves this file.

Letters: N examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, mean_squared_error


class MetricError(ValueError):
    """Predictions or labels that no score can be computed from."""


@dataclass(frozen=True)
class Metric:
    """How one task is scored; `METRICS` holds them by name."""

    compute: Callable[[np.ndarray, np.ndarray], dict[str, float]]  # (N,), (N,) -> named values
    main: str  # the value that decides which checkpoint is best
    kind: str = "classification"  # or "regression"
    higher_is_better: bool = True
    two_classes: bool = False  # class 1 is the positive one


@dataclass(frozen=True)
class Scores:
    """What `score` returns. All values are finite Python floats."""

    values: dict[str, float]
    baseline: dict[str, float]  # the same values for a constant guess
    baseline_guess: str  # what that guess is: 'always "1"' or 'always 2.70 (the mean)'
    main: str  # a key of values
    examples: int
    collapsed: bool  # every prediction is the same, though the labels are not
    notes: tuple[str, ...] = ()
    higher_is_better: bool = True

    @property
    def value(self) -> float:
        return self.values[self.main]


def score(metric: str, predictions: Sequence | np.ndarray, labels: Sequence | np.ndarray,
          label_names: Sequence[str] | None = None) -> Scores:
    """Score N predictions by a metric of `METRICS`.

    predictions, labels: (N,) class ids counted from 0, or numbers for regression.
    label_names: names of the classes, for the words in the result.

    The baseline is the same metric of a constant guess: the commonest class of these labels, or
    their mean. Raises `MetricError` for an unknown metric, no examples, lengths that differ,
    predictions that are not finite, and labels that are missing (None, NaN or, for classes, below
    zero): data without labels has no score.
    """
    chosen = METRICS.get(metric)
    if chosen is None:
        raise MetricError(f"no metric {metric!r}; there are: {', '.join(METRICS)}")
    predicted, wanted = _checked(chosen, predictions, labels)
    classes = len(label_names) if label_names else int(max(wanted.max(), predicted.max())) + 1
    if chosen.two_classes and classes > 2:
        raise MetricError(f"metric {metric!r} scores two classes, found {classes}; "
                          "macro_f1 scores any number")
    guess = wanted.mean() if chosen.kind == "regression" else np.bincount(wanted).argmax()
    values = chosen.compute(predicted, wanted)
    if not all(np.isfinite(value) for value in values.values()):
        raise MetricError(f"metric {metric!r} came out as {values}; the predictions reach from "
                          f"{predicted.min()} to {predicted.max()}")
    notes = []
    same_predictions = bool((predicted == predicted[0]).all())
    same_labels = bool((wanted == wanted[0]).all())
    collapsed = same_predictions and not same_labels and len(wanted) > 1
    if collapsed:
        notes.append(f"collapsed: all {len(wanted)} predictions are "
                     + _name(predicted[0], label_names, chosen))
    if same_labels:
        notes.append(f"all labels are {_name(wanted[0], label_names, chosen)}: whatever compares "
                     "them with one another (a correlation, Matthews) is undefined and given as 0")
    return Scores(
        values=values, main=chosen.main, examples=len(wanted), collapsed=collapsed,
        baseline=chosen.compute(np.full_like(wanted, guess), wanted),
        baseline_guess=f"always {_name(guess, label_names, chosen)}", notes=tuple(notes),
        higher_is_better=chosen.higher_is_better)


def _checked(metric: Metric, predictions: Sequence | np.ndarray, labels: Sequence | np.ndarray,
             ) -> tuple[np.ndarray, np.ndarray]:
    predicted = np.asarray(predictions)
    if len(predicted) != len(labels):
        raise MetricError(f"found {len(predicted)} predictions for {len(labels)} labels")
    if not len(predicted):
        raise MetricError("found no examples, expected at least 1")
    missing = sum(label is None or label != label for label in labels)
    if not missing and metric.kind == "classification":
        missing = int((np.asarray(labels) < 0).sum())
    if missing:
        raise MetricError(f"{missing} of {len(labels)} examples have no label: a score needs a "
                          "label for each; unlabelled data can only be predicted")
    wanted = np.asarray(labels)
    if predicted.ndim != 1 or wanted.ndim != 1:
        raise MetricError(f"expected one prediction and one label an example, found shapes "
                          f"{predicted.shape} and {wanted.shape}")
    if metric.kind == "regression":
        predicted, wanted = predicted.astype(np.float64), wanted.astype(np.float64)
        bad = int((~np.isfinite(predicted)).sum())
        if bad:
            raise MetricError(f"{bad} of {len(predicted)} predictions are not finite numbers: the "
                              "model has diverged (lower the learning rate)")
        return predicted, wanted
    for name, array in (("predictions", predicted), ("labels", wanted)):
        if not np.issubdtype(array.dtype, np.integer):
            raise MetricError(f"{name} are of type {array.dtype}, expected class ids")
    return predicted, wanted


def _name(value: float, names: Sequence[str] | None, metric: Metric) -> str:
    if metric.kind == "regression":
        return f"{value:.3g}"
    return f'"{names[int(value)]}"' if names else f"class {int(value)}"


# ---- the metrics -----------------------------------------------------------------------------


def _accuracy(predicted: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    return {"accuracy": float(accuracy_score(labels, predicted))}


def _f1(predicted: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """F1 of class 1; 0 where there is no positive at all."""
    return {"f1": float(f1_score(labels, predicted, zero_division=0.0))}


def _macro_f1(predicted: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Mean over the classes that occur in labels or predictions."""
    return {"macro_f1": float(f1_score(labels, predicted, average="macro", zero_division=0.0))}


def _accuracy_and_f1(predicted: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    both = _accuracy(predicted, labels) | _f1(predicted, labels)
    return both | {"accuracy_and_f1": sum(both.values()) / 2}


def _matthews(predicted: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """GLUE scores CoLA by this; accuracy stands beside it because people ask for it."""
    constant = (labels == labels[0]).all() or (predicted == predicted[0]).all()
    matthews = 0.0 if constant else float(matthews_corrcoef(labels, predicted))
    return {"matthews": matthews} | _accuracy(predicted, labels)


def _correlations(predicted: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Pearson and Spearman; the squared error is what the mean as a baseline is good for."""
    if _constant(predicted) or _constant(labels):
        pearson = spearman = 0.0  # undefined: a constant tells nothing
    else:
        pearson = float(stats.pearsonr(predicted, labels)[0])
        spearman = float(stats.spearmanr(predicted, labels)[0])
    return {"pearson": pearson, "spearman": spearman,
            "pearson_and_spearman": (pearson + spearman) / 2,
            "mse": float(mean_squared_error(labels, predicted))}


def _constant(values: np.ndarray) -> bool:
    """Whether numbers are equal up to the rounding of their own size (SciPy's own limit)."""
    spread = np.linalg.norm(values - values.mean())
    return len(values) < 2 or bool(spread <= 1e-13 * abs(values.mean()) or spread == 0)


def _squared_error(predicted: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    return {"mse": float(mean_squared_error(labels, predicted))}


METRICS: dict[str, Metric] = {
    "accuracy": Metric(_accuracy, "accuracy"),
    "f1": Metric(_f1, "f1", two_classes=True),
    "macro_f1": Metric(_macro_f1, "macro_f1"),
    "accuracy_and_f1": Metric(_accuracy_and_f1, "accuracy_and_f1", two_classes=True),
    "matthews": Metric(_matthews, "matthews"),
    "pearson_and_spearman": Metric(_correlations, "pearson_and_spearman", "regression"),
    "mse": Metric(_squared_error, "mse", "regression", higher_is_better=False),
}
