"""The classifier in scikit-learn: its own checks of estimators, pipelines, cross-validation and grid search."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from triskele import quantum
from triskele.core import optim

# scikit-learn accepts any argument in the constructor and columns of labels with a warning; we refuse both at once
REFUSED = {
    "check_do_not_raise_errors_in_init_or_set_params": "a circuit that cannot be trained is refused at once",
    "check_set_params": "and so it is by set_params",
    "check_supervised_y_2d": "labels of shape (N, 1) are refused",
}


def circuit(features):
    """Data re-uploading on at most two qubits."""
    qubits = min(features, 2)
    out = quantum.Circuit(qubits)
    for layer in range(2):
        encoder, trained = quantum.Circuit(qubits), quantum.Circuit(qubits)
        for k in range(features):
            encoder.ry(f"x{k}", k % qubits)
        for q in range(qubits):
            trained.rz(f"z{layer}{q}", q).ry(f"y{layer}{q}", q)
        out += encoder.as_encoder()
        out += trained.cz(0, 1) if qubits == 2 else trained
    return out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:Estimator Classifier does not inherit:UserWarning")  # sklearn is optional
def test_check_estimator():
    results = check_estimator(
        quantum.Classifier(circuit, epochs=20, optimizer=optim.Adam(0.1)), on_fail=None, expected_failed_checks=REFUSED
    )
    assert not [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert sum(r["status"] == "passed" for r in results) > 45
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(REFUSED)


def test_pipeline_cross_validation_and_grid_search():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)) * [1.0, 40.0]
    y = np.where(x[:, 0] > 0, "yes", "no")
    pipeline = make_pipeline(StandardScaler(), quantum.Classifier(circuit, epochs=10, optimizer=optim.Adam(0.1)))
    assert is_classifier(pipeline)
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.8
    search = GridSearchCV(pipeline, {"classifier__epochs": [1, 10]}, cv=2).fit(x, y)
    assert search.best_params_ == {"classifier__epochs": 10}


def test_clones_and_copies():
    fixed = circuit(1)
    trained = quantum.Classifier(fixed, epochs=2).fit([[0.0], [1.0]], [False, True], progress=False)
    fresh = clone(trained)
    assert fresh.epochs == 2
    assert not hasattr(fresh, "net_")
    again = pickle.loads(pickle.dumps(trained))
    np.testing.assert_array_equal(again.predict_proba([[0.3]]), trained.predict_proba([[0.3]]))
    assert again.predict([[0.3]]).dtype == bool
