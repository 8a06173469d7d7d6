"""Networks as estimators of scikit-learn, which is not needed for them."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import check, nn, optim, tree
from ..data import arrays
from ..imports import optional
from ..show.report import Reports
from .callbacks.state_file import StateFile
from .history import History
from .model import Model

__all__ = ["Estimator"]

_ROWS = 4096  # samples that are predicted at once


class Estimator:
    """A network as an estimator of scikit-learn: a classifier or a regressor.

    It can be cloned, put into a pipeline, cross-validated and tuned by a grid search. scikit-learn itself is not
    needed.

    Parameters
    ----------
    net : network or callable
        Network with its first parameters, which gives logits (N, classes), or predictions (N, outputs). A function
        ``net(features, outputs) -> network`` makes one for data with that many columns and classes (or outputs).
    loss : callable, optional
        Loss of predictions and targets; see `Model`. Defaults to `nn.cross_entropy` for classifiers, and to
        `nn.mean_squared_error` for regressors.
    optimizer : optimizer of `core.optim`, optional
        Defaults to ``optim.Adam()``.
    kind : {"classifier", "regressor"}, optional
        Defaults to a classifier if the loss is `nn.cross_entropy` or not given, else to a regressor.
    epochs : int
        Number of passes over the data.
    batch : int
        Number of samples in a step.
    seed : int
        Seed of the order of the data and of random masks.
    warm_start : bool
        If True, `fit` continues from the parameters of the last one.

    Attributes
    ----------
    net_ : network
        The trained network.
    history_ : History
        Mean loss of each epoch of the last `fit`.
    classes_ : (classes,) array
        Labels in sorted order; only of classifiers.
    n_features_in_ : int
        Number of columns of the data.
    feature_names_in_ : (features,) array of str
        Names of the columns, if `fit` was given a table with names, such as a pandas DataFrame. Tables that are given
        later must have the same columns in the same order.

    Notes
    -----
    Data are converted to the precision of the network's parameters. Parameters are checked by `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, optim, random, train
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(x[:, 0] * x[:, 1] > 0, "same", "other")
    >>> def net(features, classes):
    ...     return nn.MLP.init(random.key(0), [features, 32, classes])
    >>> trained = train.Estimator(net, optimizer=optim.Adam(1e-2), epochs=30).fit(x, y)
    >>> trained.score(x, y) > 0.9
    True
    >>> [str(label) for label in trained.classes_]
    ['other', 'same']
    """

    error: ClassVar[type[ValueError]] = ValueError  # raised for bad data

    net_: Any
    history_: History
    classes_: np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        net: Any,
        loss: Callable[[Any, Any], Any] | None = None,
        optimizer: Any = None,
        *,
        kind: str | None = None,
        epochs: int = 50,
        batch: int = 32,
        seed: int = 0,
        warm_start: bool = False,
    ):
        self.net, self.loss, self.optimizer, self.kind = net, loss, optimizer, kind
        self.epochs, self.batch, self.seed, self.warm_start = epochs, batch, seed, warm_start

    # -- parameters ----------------------------------------------------------------------------------------------------

    @classmethod
    def _names(cls):
        return sorted(inspect.signature(cls).parameters)

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        shown = [f"{n}={v!r}" for n, v in self.get_params().items() if v is not defaults[n].default]
        return f"{type(self).__name__}({', '.join(shown)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor by name.

        Parameters
        ----------
        deep : bool
            Ignored, since no parameter is an estimator itself.

        Returns
        -------
        dict
        """
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Any:
        """Set parameters of the constructor by name; return the estimator.

        Parameters
        ----------
        **params
            New values.

        Raises
        ------
        ValueError
            If there is no parameter of that name.
        """
        for name in params:
            check.choice(name, self._names(), f"{type(self).__name__}.set_params: a parameter", error=self.error)
        type(self)(**{**self.get_params(), **params})  # a constructor may check them
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        utils = optional.need("sklearn.utils", f"{type(self).__name__} in scikit-learn", "ml")
        classifies = self._classifies
        return utils.Tags(
            estimator_type="classifier" if classifies else "regressor",
            target_tags=utils.TargetTags(required=True, multi_output=not classifies),
            classifier_tags=utils.ClassifierTags() if classifies else None,
            regressor_tags=None if classifies else utils.RegressorTags(),
            input_tags=utils.InputTags(),
        )

    @property
    def _classifies(self):
        return self.kind == "classifier" if self.kind else self.loss in (None, nn.cross_entropy)

    # -- training ------------------------------------------------------------------------------------------------------

    def fit(
        self,
        x: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        callbacks: Sequence[Any] = (),
        report: Reports = None,
        progress: bool | None = None,
        checkpoint: str | os.PathLike | None = None,
    ) -> Any:
        """Train on data with labels or numbers.

        Parameters
        ----------
        x : (N, D) array
        y : (N,) array of labels, or (N,) or (N, outputs) array of numbers
            Integers, booleans or texts for classifiers, and real numbers for regressors.
        sample_weight : (N,) array, optional
            Weights of the samples in the loss.
        callbacks : sequence of Callback
            Callbacks of the training loop.
        report : function or list of functions, optional
            Called after each epoch with a dictionary of ``epoch``, ``step`` (of the optimizer) and ``loss``; see
            `core.report`. A reporter that raises StopIteration ends the training.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.
        checkpoint : path-like, optional
            File of the training's state, written after each epoch, and when Ctrl-C or SIGTERM ends the training. If it
            exists, the training resumes from it bit for bit.

        Returns
        -------
        Estimator
            The object itself.

        Raises
        ------
        ValueError
            If the data and labels do not match each other, or a parameter is invalid.
        CheckpointError
            If the checkpoint belongs to another training; the message names what differs.
        """
        where = type(self).__name__
        check.choice(self.kind, (None, "classifier", "regressor"), f"{where}: kind", error=self.error)
        for name in ("epochs", "batch"):
            check.integer(getattr(self, name), f"{where}: {name}", 1, error=self.error)
        names, classes, resumed = _column_names(x), None, self.warm_start and hasattr(self, "net_")
        if resumed:
            self._check_names("fit", x)
        x = self._checked_data("fit", x, None)
        if self._classifies:
            classes, targets = np.unique(self._labels(y, len(x), "fit"), return_inverse=True)
            if len(classes) < 2:
                raise self.error(f"{where}.fit: labels must be of at least two classes, got one class, {classes[0]!r}")
            if resumed and not np.array_equal(self.classes_, classes):
                raise self.error(
                    f"{where}.fit: with warm_start, labels must be those of the last fit, {self.classes_},"
                    f" got {classes}"
                )
        else:
            targets = self._numbers(y, len(x), "fit")
        outputs = len(classes) if classes is not None else 1 if targets.ndim == 1 else targets.shape[1]
        net = self.net_ if resumed else self._network(x.shape[1], outputs)
        dtype = _precision(net)
        columns = [x.astype(dtype), targets if classes is not None else targets.reshape(len(x), -1).astype(dtype)]
        if sample_weight is not None:
            columns.append(self._checked_weights(sample_weight, len(x), "fit"))
        loss = self.loss or (nn.mean_squared_error if classes is None else nn.cross_entropy)
        model = Model(net, loss, rule := self._rule())
        files = []
        if checkpoint is not None:
            names = [] if classes is None else [str(c) for c in classes.tolist()]
            files.append(
                StateFile(
                    checkpoint,
                    {
                        **self._identity(net),
                        "epochs": self.epochs,
                        "batch": self.batch,
                        "optimizer": repr(rule),
                        "data": [len(x), *(float(np.sum(c)) for c in columns), *names],
                        "weights": float(sum(np.sum(w) for w in tree.leaves(model.state.params))),
                    },
                )
            )
        try:
            self.history_ = model.fit(
                arrays(*columns).shuffle(self.seed).batch(self.batch),
                self.epochs,
                callbacks=[*callbacks, *files],
                seed=self.seed,
                report=report,
                progress=progress,
            )
        finally:
            self.net_, self.n_features_in_ = model.net, x.shape[1]
            vars(self).pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = names
            if classes is not None:
                self.classes_ = classes
            else:
                self._flat = targets.ndim == 1
        return self

    def _network(self, features, outputs):
        """The network before training."""
        if len(tree.leaves(self.net)) == 1 and tree.leaves(self.net)[0] is self.net:  # a function, which is a leaf
            return self.net(features, outputs)
        return self.net

    def _rule(self):
        """The optimizer."""
        return optim.Adam() if self.optimizer is None else self.optimizer

    def _identity(self, _net):
        """What identifies the network of a checkpoint, besides the shapes of its parameters."""
        return {}

    # -- use -----------------------------------------------------------------------------------------------------------

    def _outputs(self, x, method):
        self._check_fitted()
        self._check_names(method, x)
        x = self._checked_data(method, x, self.n_features_in_).astype(_precision(self.net_))
        return np.concatenate([np.asarray(self.net_(x[k : k + _ROWS]), np.float64) for k in range(0, len(x), _ROWS)])

    def predict(self, x: Any) -> np.ndarray:
        """Return the most probable label, or the predicted numbers, of each of N samples."""
        found = self._outputs(x, "predict")
        if self._classifies:
            return self.classes_[np.argmax(found, axis=1)]
        return found[:, 0] if self._flat else found

    @property
    def predict_proba(self) -> Callable[[Any], np.ndarray]:
        """Function of data (N, D) that returns probabilities (N, classes) in the order of `classes_`.

        Only classifiers have it.
        """
        if not self._classifies:
            raise AttributeError(f"{type(self).__name__}: a regressor has no predict_proba")
        return lambda x: np.asarray(nn.softmax(self._outputs(x, "predict_proba")))

    def score(self, x: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of right labels, or the coefficient of determination.

        Parameters
        ----------
        x : (N, D) array
        y : (N,) array, or (N, outputs) array of numbers
        sample_weight : (N,) array, optional
        """
        found = self.predict(x)
        weights = None if sample_weight is None else self._checked_weights(sample_weight, len(found), "score")
        if self._classifies:
            return float(np.average(found == self._labels(y, len(found), "score"), weights=weights))
        targets = check.shape(
            self._numbers(y, len(found), "score"),
            found.shape,
            f"{type(self).__name__}.score: targets",
            error=self.error,
        )
        rest = np.average((targets - found) ** 2, axis=0, weights=weights)
        spread = np.average((targets - np.average(targets, axis=0, weights=weights)) ** 2, axis=0, weights=weights)
        return float(np.mean(1 - rest / np.where(spread > 0, spread, np.nan)))

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        """Raise an error, which is scikit-learn's too where that is in use, unless there is a trained network."""
        if hasattr(self, "net_"):
            return
        error: type[Exception] = self.error
        if "sklearn.exceptions" in sys.modules:
            theirs = sys.modules["sklearn.exceptions"].NotFittedError
            error = (
                theirs
                if issubclass(theirs, self.error)
                else type("NotFittedError", (self.error, theirs), {"__module__": __name__})
            )
        raise error(f"{type(self).__name__}: not trained yet (call fit() first)")

    def _check_names(self, method, x):
        """Raise in scikit-learn's words unless a table with names has the columns of `fit`, in their order."""
        names, known = _column_names(x), getattr(self, "feature_names_in_", None)
        if names is None or known is None or np.array_equal(names, known):
            return
        unseen, missing = sorted({*names} - {*known}), sorted({*known} - {*names})
        text = (
            "".join(
                f"{head}:\n" + "".join(f"- {name}\n" for name in found)
                for head, found in (
                    ("Feature names unseen at fit time", unseen),
                    ("Feature names seen at fit time, yet now missing", missing),
                )
                if found
            )
            or "Feature names must be in the same order as they were in fit.\n"
        )
        raise self.error(
            f"{type(self).__name__}.{method}: The feature names should match those that were passed during fit.\n{text}"
        )

    def _checked_data(self, method: str, x: Any, features: int | None) -> np.ndarray:
        """Data as a finite (N, D) float64 array, with `features` columns where these are known."""
        where = f"{type(self).__name__}.{method}"
        array = check.shape(
            self._real(x, f"{where}: data"),
            ("N", "D"),
            f"{where}: data",
            error=self.error,
            hint="Reshape your data, for one column with x.reshape(-1, 1) and for one sample with x.reshape(1, -1)",
        )
        for axis, what in enumerate(("sample", "feature")):
            if not array.shape[axis]:
                raise self.error(
                    f"{where}: there are no data: 0 {what}(s) (shape={array.shape}) while a minimum of 1 is required."
                )
        if features is not None and array.shape[1] != features:
            raise self.error(
                f"{where}: X has {array.shape[1]} features, but {type(self).__name__} is expecting "
                f"{features} features as input"
            )
        return array

    def _real(self, x, what):
        """A finite float64 array."""
        if hasattr(x, "toarray"):
            raise self.error(
                f"{what} must be dense: sparse data are not supported, got {type(x).__name__} (pass x.toarray())"
            )
        try:
            array = np.asarray(x)
            if array.dtype.kind != "c":
                array = np.asarray(array, np.float64)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else self.error
            raise kind(f"{what} must be an array of real numbers, got {type(x).__name__}: {error}") from None
        if array.dtype.kind == "c":
            raise self.error(f"{what} must be real. Complex data not supported, got {array.dtype}")
        if not np.all(np.isfinite(array)):
            raise self.error(f"{what} must be finite, got {'NaN' if np.isnan(array).any() else 'infinity'}")
        return array

    def _labels(self, y: Any, number: int, method: str) -> np.ndarray:
        """Labels as an array of `number` integers, booleans or texts."""
        where = f"{type(self).__name__}.{method}"
        if y is None:
            raise self.error(f"{where}: requires y to be passed, but the target y is None")
        y = check.shape(np.asarray(y), (number,), f"{where}: labels", error=self.error, hint="one for each sample")
        if y.dtype.kind == "f" and not np.all(np.isfinite(y)):
            raise self.error(f"{where}: labels must be finite, got {y[~np.isfinite(y)][0]} (NaN or infinity)")
        if y.dtype.kind not in "fbiuUSO" or (y.dtype.kind == "f" and np.any(y != np.round(y))):
            raise self.error(
                f"{where}: Unknown label type: labels must be integers, booleans or texts, got {y.dtype} "
                f"with values such as {y[0]!r}"
            )
        return y

    def _numbers(self, y: Any, number: int, method: str) -> np.ndarray:
        """Targets of a regressor, (number,) or (number, outputs) float64."""
        where = f"{type(self).__name__}.{method}"
        if y is None:
            raise self.error(f"{where}: requires y to be passed, but the target y is None")
        y = self._real(y, f"{where}: targets")
        if y.ndim not in (1, 2) or len(y) != number or y.size == 0:
            raise self.error(f"{where}: targets must be an array of {number}, one for each sample, got shape {y.shape}")
        return y

    def _checked_weights(self, weights, number, method):
        """Weights of samples, (number,) float64."""
        where = f"{type(self).__name__}.{method}: sample_weight"
        weights = self._real(weights, where)
        if weights.shape != (number,) or np.any(weights < 0) or not np.any(weights):
            raise self.error(
                f"{where} must be {number} numbers >= 0, not all zero, got shape {weights.shape} and the "
                f"sum {weights.sum():g}"
            )
        return weights


def _column_names(x):
    """Names of the columns of a table, such as a DataFrame, if all of them are texts; otherwise None."""
    names = getattr(x, "columns", None)
    if names is None or not len(names) or not all(isinstance(name, str) for name in names):
        return None
    return np.array(list(names), object)


def _precision(net):
    """Floating-point type of the parameters of a network."""
    return np.result_type(*tree.leaves(nn.split(net)[0]))
