"""The attributes of fitted models: properties that read from one `Fitted` value."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any, ClassVar, NoReturn

import numpy as np
from sklearn.exceptions import NotFittedError

from ..fitting.fit import Fit
from ..fitting.remarks import Remark, issue
from ..fitting.streams.steps import StepStream
from ..fitting.streams.sums import SumStream
from ..machine.arrays import Array
from ..version import __version__
from .fitted import Fitted
from .provenance import Origin

# Held while a model is set, which takes no time; one for all models, so that a pickle or a clone needs none.
SETTING = Lock()


def read_only(array: Array) -> Array:
    """A view of an array that cannot be written to: models are values, which several may share."""
    view = array.view()
    view.flags.writeable = False
    return view


class FittedAttributes:
    """The attributes of all estimators.

    A model is one value, `_fitted`; if its rows come in batches, `_stream` holds their sums or steps. The
    problem of a stream is solved when an attribute of its solution is first read.
    """

    _fitted: Fitted | None = None
    _stream: SumStream | StepStream | None = None
    # Attributes of the rows, which can be read before a stream is solved.
    _of_rows: ClassVar[frozenset[str]] = frozenset(
        ("n_samples_", "n_features_in_", "n_features_y_", "feature_names_in_", "feature_names_y_")
    )

    @property
    def canonical_correlations_(self) -> Array:
        """Correlations of the problem with its ridge, descending."""
        return read_only(self._solved().solution.correlations)

    @property
    def training_correlations_(self) -> Array:
        """Correlations of the scores of the training rows."""
        return read_only(self._solved().solution.training_correlations)

    @property
    def x_weights_(self) -> Array:
        """Weights of the first view."""
        return read_only(self._solved().solution.x_weights)

    @property
    def y_weights_(self) -> Array:
        """Weights of the second view."""
        return read_only(self._solved().solution.y_weights)

    @property
    def x_mean_(self) -> Array:
        """Means of the columns of the first view, or of their features."""
        return read_only(self._solved().solution.mean_x)

    @property
    def y_mean_(self) -> Array:
        """Means of the columns of the second view, or of their features."""
        return read_only(self._solved().solution.mean_y)

    @property
    def residuals_(self) -> Array:
        """Relative residual of each pair in the canonical equations."""
        return read_only(self._solved().solution.residuals)

    @property
    def error_bounds_(self) -> Array:
        """Upper bound of the distance of each correlation to a true one; NaN where it is not known."""
        return read_only(self._solved().solution.error_bounds)

    @property
    def n_iter_(self) -> list[int]:
        """Number of steps of each component."""
        found = self._solved()
        return [found.iterations] * len(found.solution.correlations)

    @property
    def n_passes_(self) -> float:
        """Number of times that all rows were read."""
        return self._solved().passes

    @property
    def solver_(self) -> str:
        """The solver taken."""
        return self._solved().solver

    @property
    def solver_reason_(self) -> str:
        """Why this solver was taken."""
        return self._solved().reason

    @property
    def history_(self) -> list[dict[str, Any]]:
        """Iteration, passes, seconds, flops and captured correlation of each step."""
        return self._solved().history

    @property
    def resumed_from_iteration_(self) -> int:
        """The iteration of the checkpoint from which the fit resumed; 0 without one."""
        found = self._solved().resumed_from
        return self._missing("resumed_from_iteration_") if found is None else found

    @property
    def n_samples_(self) -> int:
        """Number of rows fitted."""
        return self._known().rows.n_samples

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the first view."""
        return self._known().rows.n_features[0]

    @property
    def n_features_y_(self) -> int:
        """Number of columns of the second view."""
        return self._known().rows.n_features[1]

    @property
    def feature_names_in_(self) -> Array:
        """Names of the columns of the first view, where they have names."""
        names = self._known().rows.names[0]
        return self._missing("feature_names_in_") if names is None else names

    @property
    def feature_names_y_(self) -> Array:
        """Names of the columns of the second view, where they have names."""
        names = self._known().rows.names[1]
        return self._missing("feature_names_y_") if names is None else names

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The warnings of the fit."""
        return self._solved().remarks

    @property
    def provenance(self) -> Origin | None:
        """The files and the command that the model comes from; None for fits in Python."""
        return None if self._fitted is None else self._fitted.provenance

    @property
    def version(self) -> str:
        """The version of appgrad that fitted the model, or wrote the file it comes from."""
        return (None if self._fitted is None else self._fitted.version) or __version__

    def record_provenance(self, origin: Origin | None) -> None:
        """Record the files and the command that the model comes from."""
        with SETTING:
            self._fitted = self._known()._replace(provenance=origin)

    @property
    def streamed(self) -> bool:
        """True if the rows came in batches: more may follow."""
        return self._stream is not None

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __dir__(self) -> Iterable[str]:
        """Names of the attributes that can be read without solving a stream.

        Notebooks show every attribute that is listed here (inspect.getmembers). That must not solve the
        problem of a stream, and an attribute that is missing would be shown as a property. scikit-learn's own
        list reads every attribute to see if it exists.
        """
        listed = object.__dir__(self)
        read = {name for name in listed if self._is_fitted_attribute(name)}
        there = read & self._available()
        return [name for name in listed if name in there or (name not in read and hasattr(self, name))]

    def _available(self) -> set[str]:
        """Names of the fitted attributes that can be read without solving a stream."""
        fitted = self._fitted
        if fitted is None:
            return set()
        found = set(self._of_rows)
        if fitted.fit is not None:
            found |= set(filter(self._is_fitted_attribute, dir(type(self))))
            if fitted.fit.resumed_from is None:
                found.remove("resumed_from_iteration_")
        names = zip(("feature_names_in_", "feature_names_y_"), fitted.rows.names, strict=True)
        return found - {attribute for attribute, known in names if known is None}

    def _is_fitted_attribute(self, name: str) -> bool:
        """True if this is the name of a property that reads from `_fitted`."""
        named = name in ("remarks", "noise", "tests_need_no_rows") or (
            name.endswith("_") and not name.startswith("_")
        )
        return named and isinstance(getattr(type(self), name, None), property)

    def _known(self) -> Fitted:
        """The `Fitted` value, also of a stream that is not solved yet; NotFittedError if there is none."""
        if self._fitted is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate "
                "arguments before using this estimator."
            )
        return self._fitted

    def _solved(self) -> Fit:
        """The fit. That of a stream is computed, and its warnings are issued, on first use."""
        known = self._known()
        if known.fit is not None:
            return known.fit
        found = self._fit_of_stream()
        with SETTING:
            # If another thread has added rows or fitted meanwhile, its model stays.
            if self._fitted is known:
                self._fitted = known._replace(fit=found)
        issue(found.remarks)
        return found

    def _set(self, fitted: Fitted | None, stream: SumStream | StepStream | None) -> None:
        """Set the model, and the stream of its rows if there is one."""
        with SETTING:
            self._fitted, self._stream = fitted, stream

    def _fit_of_stream(self) -> Fit:
        """The fit to the rows of a stream so far."""
        raise NotImplementedError

    def _missing(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class ColumnAttributes(FittedAttributes):
    """The attributes of estimators whose scores are sums of weighted columns."""

    @property
    def x_loadings_(self) -> Array:
        """Covariances of the columns of the first view with its scores."""
        return read_only(self._solved().solution.x_loadings)

    @property
    def y_loadings_(self) -> Array:
        """Covariances of the columns of the second view with its scores."""
        return read_only(self._solved().solution.y_loadings)

    @property
    def x_std_(self) -> Array:
        """Standard deviations of the columns of the first view."""
        return read_only(self._solved().solution.std_x)

    @property
    def y_std_(self) -> Array:
        """Standard deviations of the columns of the second view."""
        return read_only(self._solved().solution.std_y)

    @property
    def x_rotations_(self) -> Array:
        """The x weights under scikit-learn's other name."""
        return self.x_weights_

    @property
    def y_rotations_(self) -> Array:
        """The y weights under scikit-learn's other name."""
        return self.y_weights_

    @property
    def coef_(self) -> Array:
        """Coefficients (n_features_y, n_features_x) of the linear prediction of y."""
        return np.asarray(self._solved().solution.y_slopes @ self.x_weights_.T)

    @property
    def intercept_(self) -> Array:
        """Intercept of the linear prediction of y."""
        slopes = self._solved().solution.y_slopes
        return np.asarray(self.y_mean_ - slopes @ (self.x_weights_.T @ self.x_mean_))

    @property
    def x_explained_variance_(self) -> Array:
        """The share of the variance of the first view that each of its own scores explains.

        That is the mean squared correlation of its columns with the score, known as adequacy.
        """
        solution = self._solved().solution
        return _adequacy(solution.x_loadings, solution.std_x)

    @property
    def y_explained_variance_(self) -> Array:
        """The share of the variance of the second view that each of its own scores explains."""
        solution = self._solved().solution
        return _adequacy(solution.y_loadings, solution.std_y)

    @property
    def x_redundancy_(self) -> Array:
        """The share of the variance of the first view that each score of the other view explains."""
        return self._redundancy(0, self.x_explained_variance_)

    @property
    def y_redundancy_(self) -> Array:
        """The share of the variance of the second view that each score of the other view explains."""
        return self._redundancy(1, self.y_explained_variance_)

    def _redundancy(self, view: int, own: Array) -> Array:
        solution = self._solved().solution
        if solution.redundancy is not None:
            return read_only(solution.redundancy[view])
        # Files of 0.1.0 have none. Without a ridge it follows from the correlations.
        same = np.allclose(solution.correlations, solution.training_correlations, rtol=0, atol=1e-6)
        return own * solution.correlations**2 if same else np.full(len(own), np.nan)


def _adequacy(loadings: Array, std: Array) -> Array:
    """The mean over the columns that vary of squared correlations with each score."""
    live = std > 0
    shares = (loadings[live] / std[live, None]) ** 2
    return np.asarray(np.clip(shares.mean(axis=0), 0.0, 1.0, dtype=float))
