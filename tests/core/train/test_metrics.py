"""Metrics: equal to scikit-learn, sacrebleu and SciPy, and independent of batches, merges and compilation."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import directed_hausdorff
from scipy.special import softmax

from triskele import core
from triskele.core.train import metrics

BLEU = json.loads((Path(__file__).parents[2] / "data" / "train" / "bleu.json").read_text())


def value(metric, predictions, targets, weights=None):
    return metric.result(metric.update(metric.init(), predictions, targets, weights))


def nasty(seed, n=60, classes=5):
    """Scores with ties, targets without class 3, and weights of which some are 0."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(1, 6, (n, classes)) / 8.0
    targets = rng.choice([0, 1, 2, 4], n)
    weights = rng.integers(0, 3, n) * rng.choice([0.5, 1.0, 1.7], n)
    return scores, targets, weights


def peer(function, *args, **kwargs):
    """scikit-learn's value for the samples with a weight, without its warnings of ratios 0 / 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


@pytest.mark.parametrize("seed", range(5))
def test_classification_equals_scikit_learn(seed):
    scores, targets, weights = nasty(seed)
    counted = weights > 0
    labels = scores.argmax(axis=1)
    t, p, w = targets[counted], labels[counted], weights[counted]
    expected = sk.accuracy_score(t, p, sample_weight=w)
    assert value(metrics.Accuracy(), scores, targets, weights) == pytest.approx(expected)
    np.testing.assert_allclose(
        value(metrics.ConfusionMatrix(5), labels, targets, weights),
        sk.confusion_matrix(t, p, labels=range(5), sample_weight=w),
        rtol=1e-14,
    )
    np.testing.assert_allclose(
        value(metrics.ConfusionMatrix(5, normalize="all"), scores, targets),
        sk.confusion_matrix(targets, labels, labels=range(5), normalize="all"),
        rtol=1e-14,
    )
    distinct = scores + np.linspace(0, 1e-3, 5)  # scikit-learn breaks ties another way
    expected = peer(sk.top_k_accuracy_score, t, distinct[counted], k=2, labels=range(5), sample_weight=w)
    assert value(metrics.TopK(2), distinct, targets, weights) == pytest.approx(expected)
    assert value(metrics.TopK(1), scores, targets) == value(metrics.Accuracy(), scores, targets)


@pytest.mark.parametrize(
    "name, function",
    [
        ("Precision", sk.precision_score),
        ("Recall", sk.recall_score),
        ("F1", sk.f1_score),
        ("Dice", sk.f1_score),
        ("IoU", sk.jaccard_score),
    ],
)
def test_ratios_of_counts_equal_scikit_learn(name, function):
    metric = getattr(metrics, name)
    for seed in range(3):
        scores, targets, weights = nasty(seed)
        counted = weights > 0
        t, p, w = targets[counted], scores.argmax(axis=1)[counted], weights[counted]
        for average in ("micro", "macro", "weighted"):
            expected = peer(function, t, p, average=average, sample_weight=w)
            for classes in (None, 5, 9):
                found = value(metric(average, classes=classes), scores, targets, weights)
                assert found == pytest.approx(expected, rel=1e-13), (average, classes)
        present = np.union1d(t, p)
        found = value(metric(None, classes=7), scores, targets, weights)
        np.testing.assert_allclose(found[present], peer(function, t, p, average=None, sample_weight=w), rtol=1e-13)
        assert np.isnan(np.delete(found, present)).all()
        expected = peer(function, targets == 1, scores[:, 0] > 0.5, sample_weight=weights)
        assert value(metric("binary"), scores[:, 0], targets == 1, weights) == pytest.approx(expected)
    assert value(metric("binary"), np.array([0, 0]), np.array([0, 0])) == 0


@pytest.mark.parametrize("seed", range(5))
def test_areas_equal_scikit_learn(seed):
    scores, targets, weights = nasty(seed)
    ones = scores[:, 0].astype(np.float32)
    for metric, function in ((metrics.ROCAUC, sk.roc_auc_score), (metrics.PRAUC, sk.average_precision_score)):
        expected = function(targets == 1, ones, sample_weight=weights)
        assert value(metric(), ones, targets == 1, weights) == pytest.approx(expected, rel=1e-13)
        columns = np.stack([-ones, ones], axis=1)
        assert value(metric(), columns, (targets == 1).astype(int), weights) == pytest.approx(expected, rel=1e-13)
    p = scores[:, [0, 1, 2]] / scores[:, [0, 1, 2]].sum(axis=1, keepdims=True)
    t = targets % 3
    for average in ("macro", "weighted"):
        expected = sk.roc_auc_score(t, p, multi_class="ovr", average=average)
        assert value(metrics.ROCAUC(average), p, t) == pytest.approx(expected, rel=1e-13)
    each = [sk.average_precision_score(t == k, p[:, k]) for k in range(3)]
    np.testing.assert_allclose(value(metrics.PRAUC(None), p, t), each, rtol=1e-13)


def test_regression_equals_scikit_learn():
    rng = np.random.default_rng(0)
    t, p, w = rng.normal(1e4, 1, (50, 3)), rng.normal(1e4, 1, (50, 3)), rng.integers(0, 3, 50) * 0.7
    for metric, function in (
        (metrics.MAE(), sk.mean_absolute_error),
        (metrics.MSE(), sk.mean_squared_error),
        (metrics.R2(3), sk.r2_score),
    ):
        assert value(metric, p, t, w) == pytest.approx(function(t, p, sample_weight=w), rel=1e-10)
    assert value(metrics.RMSE(), p, t) == pytest.approx(np.sqrt(np.mean((p - t) ** 2)))
    assert value(metrics.R2(), p, t) == pytest.approx(sk.r2_score(t.ravel(), p.ravel()), rel=1e-10)
    assert np.isnan(value(metrics.R2(), np.zeros(7), np.full(7, 0.1)))


def test_sums_of_float32_are_float64():
    """In float32, the sum of 1e8 and 1 is 1e8."""
    errors = np.array([1e4, 1.0, 1.0], np.float32)
    assert value(metrics.MSE(), errors, np.zeros(3, np.float32)) == (1e8 + 2) / 3
    one, small = np.array([1.0], np.float32), np.array([1e-9], np.float32)
    assert value(metrics.MAE(), one, small) == 1 - float(small[0])


def test_calibration_error_equals_loop_over_bins():
    rng = np.random.default_rng(0)
    logits, targets, w = rng.normal(0, 2, (200, 4)), rng.integers(0, 4, 200), rng.integers(0, 3, 200)
    p = softmax(logits, axis=1)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == targets
    error = 0
    for k in range(15):
        inside = (k / 15 < confidence) & (confidence <= (k + 1) / 15)
        error += abs(np.sum(w * (right - confidence.astype(float)) * inside)) / w.sum()
    assert value(metrics.CalibrationError(), p, targets, w) == pytest.approx(error)
    assert value(metrics.CalibrationError(logits=True), logits, targets, w) == pytest.approx(error)
    pairs = p[:, :2] / p[:, :2].sum(axis=1, keepdims=True)
    assert value(metrics.CalibrationError(), pairs[:, 1], targets > 1) == pytest.approx(
        value(metrics.CalibrationError(), pairs, targets > 1)
    )


def test_bins_of_the_calibration_error_are_closed_above():
    """Confidence 1/2 lies in the first of two bins, 3/4 in the second: |1 - 1/2| and |0 - 3/4|."""
    p = np.array([[0.5, 0.5], [0.25, 0.75]])
    assert value(metrics.CalibrationError(2), p, np.array([0, 0])) == (0.5 + 0.75) / 2


def test_perplexity():
    rng = np.random.default_rng(0)
    logits, tokens, mask = rng.normal(0, 30, (4, 6, 20)), rng.integers(0, 20, (4, 6)), rng.random((4, 6)) < 0.6
    losses = -np.log(np.take_along_axis(softmax(logits, axis=-1), tokens[..., None], axis=-1)[..., 0])
    expected = np.exp(losses[mask].mean())
    assert value(metrics.Perplexity(), logits, np.where(mask, tokens, -100), mask) == pytest.approx(expected)
    assert value(metrics.Perplexity(logits=False), softmax(logits, axis=-1), tokens, mask) == pytest.approx(expected)
    assert value(metrics.Perplexity(logits=False), np.eye(2), np.array([1, 0])) == np.inf


@pytest.mark.parametrize("case", BLEU["cases"], ids=lambda case: case["name"])
def test_bleu_equals_sacrebleu(case):
    for smoothing, expected in case["bleu"].items():
        metric = metrics.BLEU(smoothing=smoothing)
        assert value(metric, case["predictions"], case["references"]) == pytest.approx(expected, abs=1e-12)
    single = [r[0] for r in case["references"]]
    assert value(metric, case["predictions"], single) == value(metric, case["predictions"], [[r] for r in single])
    tokens = value(
        metric,
        [p.split() for p in case["predictions"]],
        [[r.split() for r in several] for several in case["references"]],
    )
    assert tokens == value(metric, case["predictions"], case["references"])


def test_bleu_of_integer_tokens():
    tokens = [np.arange(7), np.arange(3, 9)]
    assert value(metrics.BLEU(), tokens, tokens) == 1
    assert value(metrics.BLEU(), tokens, [[t, t[::-1]] for t in tokens]) == 1
    metric = metrics.BLEU(2)
    assert value(metric, tokens, tokens[::-1], np.array([1, 0])) == value(metric, tokens[:1], tokens[1:])


@pytest.mark.parametrize("shape", [(30,), (12, 15), (7, 8, 9)])
def test_hausdorff_equals_scipy(shape):
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 4, *shape)) < 0.4
    spacing = np.array([0.5, 2.0, 1.5])[: len(shape)]

    def surface(region):
        padded = np.pad(region, 1)
        inner = np.all([np.roll(padded, s, axis) for axis in range(region.ndim) for s in (-1, 1)], axis=0)
        return np.argwhere(padded & ~inner) * spacing

    expected, expected95 = [], []
    for x, y in zip(a, b):
        p, q = surface(x), surface(y)
        expected.append(max(directed_hausdorff(p, q)[0], directed_hausdorff(q, p)[0]))
        apart = np.linalg.norm(p[:, None] - q, axis=-1)
        expected95.append(max(np.quantile(apart.min(axis=k), 0.95) for k in (0, 1)))
    assert value(metrics.Hausdorff(spacing=tuple(spacing)), a, b) == pytest.approx(np.mean(expected))
    assert value(metrics.Hausdorff(0.95, spacing=tuple(spacing)), a, b) == pytest.approx(np.mean(expected95))
    nothing = np.zeros_like(a)
    assert value(metrics.Hausdorff(), nothing, nothing) == 0
    assert value(metrics.Hausdorff(), nothing, b) == np.inf


CLASSIFIED = [
    metrics.Accuracy(),
    metrics.TopK(2),
    metrics.ConfusionMatrix(),
    metrics.F1("macro"),
    metrics.IoU(None, 6),
    metrics.CalibrationError(logits=True),
    metrics.Perplexity(),
]
ELEMENTWISE = [metrics.MAE(), metrics.MSE(), metrics.RMSE(), metrics.R2(), metrics.ROCAUC(), metrics.PRAUC()]


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 40), max_size=6), seed=st.integers(0, 1000), whole=st.booleans())
def test_any_split_and_order_of_merges_gives_the_same(cuts, seed, whole):
    scores, targets, weights = nasty(seed, n=40)
    targets[:2], weights[:2] = (0, 1), 1.0
    weights = np.ceil(weights) if whole else weights
    rng = np.random.default_rng(seed)
    parts = np.split(np.arange(40), sorted(cuts))
    for metric in CLASSIFIED + ELEMENTWISE:
        p, t = (scores, targets) if metric in CLASSIFIED else (scores[:, 0], (targets == 1).astype(int))
        states = [metric.update(metric.init(), p[k], t[k], weights[k]) for k in parts]
        while len(states) > 1:
            a, b = (states.pop(rng.integers(len(states))) for _ in range(2))
            states.append(metric.merge(a, b))
        found, expected = metric.result(states[0]), value(metric, p, t, weights)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        if whole and metric in CLASSIFIED[:5]:
            np.testing.assert_array_equal(found, expected)


COMPILED = [
    metrics.Accuracy(),
    metrics.TopK(2),
    metrics.ConfusionMatrix(5),
    metrics.F1("macro", 5),
    metrics.Precision(),
    metrics.CalibrationError(logits=True),
    metrics.Perplexity(),
    metrics.MAE(),
    metrics.R2(),
]


@pytest.mark.parametrize("metric", COMPILED, ids=lambda m: m.name)
def test_compiled_update_equals_plain(metric):
    assert metric.compiled
    scores, targets, weights = nasty(0)
    scores = scores.astype(np.float32)
    scores, targets = {
        "precision": (scores[:, 0], targets == 1),
        "mae": (scores[:, 0], targets),
        "r2": (scores[:, 0], targets),
    }.get(metric.name, (scores, targets))
    update = core.jit(metric.update)
    state = update(update(metric.init(), scores, targets, weights), scores, targets, None)
    expected = metric.update(metric.update(metric.init(), scores, targets, weights), scores, targets)
    np.testing.assert_allclose(metric.result(state), metric.result(expected), rtol=1e-12)
    hole = scores.copy()
    hole[0] = np.nan
    weights[0] = 1
    assert np.isnan(metric.result(update(metric.init(), hole, targets, weights))).any()
    weights[0] = 0
    np.testing.assert_allclose(
        metric.result(update(metric.init(), hole, targets, weights)),
        metric.result(metric.update(metric.init(), scores, targets, weights)),
        rtol=1e-12,
    )


def test_compiled_update_counts_labels_out_of_range():
    for metric in (metrics.Accuracy(), metrics.TopK(2), metrics.F1("macro", 5), metrics.Perplexity()):
        state = core.jit(metric.update)(metric.init(), np.zeros((3, 5)), np.array([0, 5, -1]))
        with pytest.raises(ValueError, match="got 2 values out of range"):
            metric.result(state)


def test_metrics_without_a_fixed_state_say_so():
    growing = (metrics.ConfusionMatrix(), metrics.F1("macro"), metrics.ROCAUC(), metrics.BLEU(), metrics.Hausdorff())
    assert not any(metric.compiled for metric in growing)
    with pytest.raises(ValueError, match="pass classes="):
        core.jit(metrics.IoU().update)(metrics.IoU().init(), np.zeros((3, 5)), np.zeros(3, int))


EMPTY = [
    metrics.Accuracy(),
    metrics.TopK(),
    metrics.F1(),
    metrics.Recall("macro"),
    metrics.CalibrationError(),
    metrics.MAE(),
    metrics.RMSE(),
    metrics.R2(),
    metrics.ROCAUC(),
    metrics.PRAUC(),
    metrics.Perplexity(),
    metrics.BLEU(),
    metrics.Hausdorff(),
]


@pytest.mark.parametrize("metric", EMPTY, ids=lambda m: m.name)
def test_no_samples_give_nan(metric):
    assert np.isnan(metric.result(metric.init()))


@pytest.mark.parametrize(
    "metric, predictions, targets, weights, words",
    [
        (metrics.Accuracy(), np.zeros((2, 3)), np.array([0, 3]), None, "labels from 0 to 2, got 3 at 1"),
        (metrics.Accuracy(), np.zeros((2, 3)), np.array([-1, 0]), None, "labels from 0 to 2, got -1 at 0"),
        (metrics.Accuracy(), np.zeros((2, 3)), np.array([0, 1, 2]), None, r"shape of targets, \(3,\)"),
        (metrics.Accuracy(), np.array([[0, np.nan]]), np.array([0]), None, "must not be NaN, got NaN at 0"),
        (metrics.Accuracy(), np.zeros((2, 3)), np.array([0, 1]), np.ones(3), "weights must be numbers in the shape"),
        (metrics.Accuracy(), np.zeros((2, 3)), np.array([0, 1]), np.array([1, -1]), "weights must be finite"),
        (metrics.TopK(5), np.zeros((2, 3)), np.array([0, 1]), None, "at least k=5 classes"),
        (metrics.F1(), np.zeros((2, 3)), np.array([0, 1]), None, "needs 2 classes, got scores of 3"),
        (metrics.F1("macro", 2), np.array([0, 2]), np.array([0, 1]), None, "predictions must be labels from 0 to 1"),
        (metrics.ConfusionMatrix(), np.array([0]), np.array([10**9]), None, "above 4095 need the number of classes"),
        (
            metrics.ROCAUC(),
            np.array([[np.inf, np.inf], [0, 1]]),
            np.array([1, 0]),
            None,
            "must not be NaN, got NaN at 0",
        ),
        (metrics.MSE(), np.zeros((2, 1)), np.zeros(2), None, "the shape of targets"),
        (metrics.MSE(), np.zeros(2), np.array([0, np.nan]), None, "targets must not be NaN"),
        (metrics.ROCAUC(), np.array([0.1, 0.2]), np.array([1, 1]), None, "of another class, got only class 1"),
        (metrics.PRAUC(), np.array([0.1, 0.2]), np.array([0, 0]), None, "got none of class 1"),
        (metrics.ROCAUC(), np.array([[5.0, 1, 2], [1, 2, 3]]), np.array([0, 2]), None, "apply nn.softmax"),
        (metrics.CalibrationError(), np.array([[3.0, 1.0]]), np.array([0]), None, "logits=True"),
        (metrics.BLEU(), ["a"], ["a", "b"], None, "must have one length"),
        (metrics.Hausdorff(), np.zeros(3), np.zeros(3, int), None, "at least one axis of space"),
    ],
)
def test_bad_input_is_refused(metric, predictions, targets, weights, words):
    with pytest.raises(ValueError, match=words):
        value(metric, predictions, targets, weights)


@pytest.mark.parametrize(
    "metric, other",
    [
        (metrics.CalibrationError(5), metrics.CalibrationError(7)),
        (metrics.R2(), metrics.R2(3)),
        (metrics.Accuracy(), metrics.MSE()),
        (metrics.BLEU(3), metrics.BLEU(4)),
    ],
)
def test_states_of_other_options_do_not_merge(metric, other):
    with pytest.raises(ValueError, match="must come from metrics with the same options"):
        metric.merge(metric.init(), other.init())


def test_scores_of_other_classes_do_not_merge():
    metric = metrics.ROCAUC()
    state = metric.update(metric.init(), np.array([0.1, 0.2]), np.array([0, 1]))
    with pytest.raises(ValueError, match="scores of the same classes"):
        metric.update(state, np.full((2, 4), 0.25), np.array([0, 1]))


@pytest.mark.parametrize("predictions", [np.array([1j, 2]), np.array(["1", "2"])])
def test_errors_of_other_than_real_numbers_are_refused(predictions):
    with pytest.raises(TypeError, match="predictions must be real numbers"):
        value(metrics.MSE(), predictions, np.zeros(2))


def test_real_targets_are_refused():
    with pytest.raises(TypeError, match="integer class labels, got float64"):
        value(metrics.Accuracy(), np.eye(3), np.zeros(3))


def test_the_largest_probability_of_a_target_is_its_label():
    scores, shares = np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([[0.7, 0.3], [0.6, 0.4]])
    metric = metrics.Accuracy()
    assert metric.result(metric.update(metric.init(), scores, shares)) == 0.5
    with pytest.raises(ValueError, match="must be probabilities that sum to 1"):
        metric.update(metric.init(), scores, 2 * shares)
    with pytest.raises(ValueError, match="got 2 values out of range"):
        metric.result(core.jit(metric.update)(metric.init(), scores, 2 * shares))


def test_bad_options_are_refused():
    for make in (
        lambda: metrics.F1("makro"),
        lambda: metrics.F1(classes=3),
        lambda: metrics.BLEU(smoothing="expo"),
        lambda: metrics.Hausdorff(1.5),
        lambda: metrics.TopK(0),
        lambda: metrics.ConfusionMatrix(normalize="x"),
    ):
        with pytest.raises(ValueError, match="unknown|must be|needs 2"):
            make()


def test_names():
    for name in (
        "accuracy",
        "top_k",
        "precision",
        "recall",
        "f1",
        "roc_auc",
        "pr_auc",
        "confusion_matrix",
        "calibration_error",
        "mae",
        "mse",
        "rmse",
        "r2",
        "perplexity",
        "bleu",
        "dice",
        "iou",
        "hausdorff",
    ):
        assert metrics.get(name).name == name
    with pytest.raises(ValueError, match=r"must be one of accuracy, bleu, cal.*, got 'acuracy' .*mean 'accuracy"):
        metrics.get("acuracy")
    assert metrics.get(metrics.MAE()) == metrics.MAE()
