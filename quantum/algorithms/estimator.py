"""Estimators in the sense of scikit-learn, which is not needed for them."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import ParameterError

__all__ = ["Estimator"]


class Estimator:
    """Base of estimators: the parameters of the constructor are attributes, and what `fit` finds ends in an underscore.

    Examples
    --------
    >>> from triskele import quantum
    >>> circuit = quantum.Circuit(1).ry("x", 0).as_encoder() + quantum.Circuit(1).ry("a", 0)
    >>> quantum.Classifier(circuit).set_params(epochs=3).get_params()["epochs"]
    3
    """

    @classmethod
    def _names(cls):
        return sorted(name for name in inspect.signature(cls).parameters)

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        shown = [f"{n}={v!r}" for n, v in self.get_params().items() if v is not defaults[n].default]
        return f"{type(self).__name__}({', '.join(shown)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor by name.

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
        """Set parameters of the constructor by name; returns the estimator.

        Parameters
        ----------
        **params
            New values.

        Raises
        ------
        ParameterError
            If there is no parameter of a name.
        """
        for name in params:
            if name not in self._names():
                raise ParameterError(f"{type(self).__name__}.set_params: there is no parameter {name!r}"
                                     f"{check.near(name, self._names())}")
        type(self)(**{**self.get_params(), **params})  # which checks them
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def _check_fitted(self, attribute: str) -> None:
        """Raise an error, which is scikit-learn's too where that is in use, unless `fit` has set the attribute."""
        if hasattr(self, attribute):
            return
        error: type[Exception] = ParameterError
        if "sklearn.exceptions" in sys.modules:
            theirs = sys.modules["sklearn.exceptions"].NotFittedError
            error = type("NotFittedError", (ParameterError, theirs), {"__module__": __name__})
        raise error(f"{type(self).__name__}: not trained yet (call fit() first)")

    def _checked_data(self, method: str, x: Any, features: int | None) -> np.ndarray:
        """Data as a finite (N, D) float64 array, with `features` columns where these are known."""
        where = f"{type(self).__name__}.{method}"
        if hasattr(x, "toarray"):
            raise ParameterError(f"{where}: sparse data are not supported, got {type(x).__name__} (pass x.toarray())")
        try:
            array = np.asarray(x)
            if array.dtype.kind == "c":
                raise ParameterError(f"{where}: data must be real. Complex data not supported, got {array.dtype}")
            array = np.asarray(array, np.float64)
        except (TypeError, ValueError) as error:
            if isinstance(error, ParameterError):
                raise
            kind = TypeError if isinstance(error, TypeError) else ParameterError
            raise kind(f"{where}: data must be an array of real numbers, got {type(x).__name__}: {error}") from None
        if array.ndim != 2:
            raise ParameterError(f"{where}: data must have shape (N, D), got {array.shape} (Reshape your data, for one "
                                 "column with x.reshape(-1, 1) and for one sample with x.reshape(1, -1))")
        for axis, what in enumerate(("sample", "feature")):
            if not array.shape[axis]:
                raise ParameterError(f"{where}: there are no data: 0 {what}(s) (shape={array.shape}) while a minimum "
                                     "of 1 is required.")
        if features is not None and array.shape[1] != features:
            raise ParameterError(f"{where}: X has {array.shape[1]} features, but {type(self).__name__} is expecting "
                                 f"{features} features as input")
        if not np.all(np.isfinite(array)):
            bad = "NaN" if np.isnan(array).any() else "infinity"
            raise ParameterError(f"{where}: data must be finite, got {bad}")
        return array
