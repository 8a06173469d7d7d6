"""Networks as scikit-learn's estimators: its own checks, pipelines, cross-validation, checkpoints, bad data."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_iris, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency, check_estimator

from tests.reporting import stop_at
from triskele import core
from triskele.core import nn, optim, random, train


def mlp(features, outputs):
    return nn.MLP.init(random.key(0), [features, 16, outputs], dtype=float)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:Estimator .* does not inherit:UserWarning")  # sklearn is optional
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_check_estimator(kind):
    estimator = train.Estimator(mlp, optimizer=optim.Adam(0.05), kind=kind, epochs=25, batch=1000)
    refused = {"check_supervised_y_2d": "labels of shape (N, 1) are refused"} if kind == "classifier" else {}
    results = check_estimator(estimator, on_fail=None, expected_failed_checks=refused)
    assert not [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert sum(r["status"] == "passed" for r in results) > 45
    assert is_classifier(estimator) == (kind == "classifier") != is_regressor(estimator)


def test_named_columns_keep_their_order():
    pd = pytest.importorskip("pandas")
    check_dataframe_column_names_consistency("Estimator", train.Estimator(mlp, kind="classifier", epochs=1))
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 2)), columns=["a", "b"])
    y = x["a"] > 0
    trained = train.Estimator(mlp, optimizer=optim.Adam(0.02), epochs=20, warm_start=True).fit(x, y)
    assert trained.feature_names_in_.tolist() == ["a", "b"]
    assert trained.score(x.to_numpy(), y) == trained.score(x, y) > 0.9
    for use in (trained.predict, trained.predict_proba, lambda x: trained.score(x, y), lambda x: trained.fit(x, y)):
        with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
            use(x[["b", "a"]])
    assert not hasattr(trained.set_params(warm_start=False).fit(x.to_numpy(), y), "feature_names_in_")


def test_pipeline_cross_validation_and_grid_search():
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    pipeline = make_pipeline(StandardScaler(), train.Estimator(mlp, optimizer=optim.Adam(0.02), epochs=30))
    assert cross_val_score(pipeline, x, names, cv=3).mean() > 0.92
    search = GridSearchCV(pipeline, {"estimator__epochs": [1, 30]}, cv=2).fit(x, names)
    assert search.best_params_ == {"estimator__epochs": 30}
    np.testing.assert_allclose(search.predict_proba(x).sum(1), 1)


def test_it_is_the_model_and_scores_are_scikit_learn_s():
    x, y = make_regression(100, 4, n_targets=2, noise=5.0, random_state=0)
    y, weights = y / 100, np.linspace(0.5, 2, 100)
    trained = train.Estimator(mlp(4, 2), nn.mean_squared_error, optim.Adam(0.01), epochs=5, seed=3).fit(x, y, weights)
    model = train.Model(mlp(4, 2), nn.mean_squared_error, optim.Adam(0.01))
    history = model.fit(core.data.arrays(x, y, weights).shuffle(3).batch(32), 5, seed=3)
    np.testing.assert_array_equal(trained.history_["loss"], history["loss"])
    np.testing.assert_allclose(trained.predict(x), model.predict(x), rtol=1e-12)
    from sklearn.metrics import r2_score

    assert trained.score(x, y, weights) == pytest.approx(r2_score(y, trained.predict(x), sample_weight=weights))
    assert not hasattr(trained, "predict_proba")


def test_clones_copies_and_warm_starts():
    x, y = load_iris(return_X_y=True)
    trained = train.Estimator(mlp, epochs=3, warm_start=True).fit(x, y)
    fresh = clone(trained)
    assert fresh.get_params() == trained.get_params() and not hasattr(fresh, "net_")
    again = pickle.loads(pickle.dumps(trained))
    np.testing.assert_array_equal(again.predict_proba(x), trained.predict_proba(x))
    before = trained.history_["loss"]
    assert trained.fit(x, y).history_["loss"][0] < before[-1]
    with pytest.raises(ValueError, match="labels must be those of the last fit"):
        trained.fit(x, y + 1)


def test_a_checkpoint_resumes_bit_for_bit(tmp_path):
    x, y = load_iris(return_X_y=True)
    make = lambda: train.Estimator(mlp, epochs=6, batch=64)
    whole = make().fit(x, y)
    make().fit(x, y, checkpoint=tmp_path / "a", report=stop_at(6))
    resumed = make().fit(x, y, checkpoint=tmp_path / "a")
    for a, b in zip(core.tree.leaves(whole.net_), core.tree.leaves(resumed.net_), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(core.errors.CheckpointError, match="these differ: data"):
        make().fit(x + 1, y, checkpoint=tmp_path / "a")


@pytest.mark.parametrize(
    "options, data, words",
    [
        ({"kind": "clusterer"}, {}, "kind must be None, 'classifier' or 'regressor', got 'clusterer'"),
        ({"epochs": 0}, {}, "epochs must be an integer >= 1"),
        ({}, {"sample_weight": -np.ones(4)}, r"sample_weight must be 4 numbers >= 0"),
        ({}, {"y": [0.5, 1, 2, 3]}, "Unknown label type"),
        ({"kind": "regressor"}, {"y": np.ones((3, 2))}, "targets must be an array of 4"),
        ({"kind": "regressor"}, {"y": [1, 2, 3, np.nan]}, "targets must be finite, got NaN"),
    ],
)
def test_bad_data_are_named(options, data, words):
    with pytest.raises(ValueError, match=f"Estimator.*{words}"):
        train.Estimator(mlp, **options).fit(**{"x": np.eye(4), "y": [0, 1, 0, 1], **data})
