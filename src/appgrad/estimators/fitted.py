"""A fitted model as one value, from which attributes, files and reports are made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.kernels import Learned
from ..fitting.fit import Fit
from ..fitting.projection import Projection
from ..machine.arrays import Array
from ..solvers.problem import Solution
from .provenance import Origin


class Rows(NamedTuple):
    """The data a model was fitted to: numbers of rows and columns, names, and if y had one dimension.

    `learned` is what a kernel model has learned from the rows; None for others.
    """

    n_samples: int
    n_features: tuple[int, int]
    names: tuple[Array | None, Array | None] = (None, None)
    y_1d: bool = False
    learned: Learned | None = None

    @property
    def widths(self) -> tuple[int, int]:
        """Number of weights of a component in each view: that of its columns, or of a kernel's features."""
        if self.learned is None:
            return self.n_features
        x, y = self.learned.maps
        return x.n_features, y.n_features


class Fitted(NamedTuple):
    """A fitted model: its rows, its fit, and the files it comes from, which only the command line records.

    `fit` is None for a stream that has not been solved yet. `version` is that of the appgrad that wrote the
    file of a loaded model; None for a fit of this process.
    """

    rows: Rows
    fit: Fit | None = None
    provenance: Origin | None = None
    version: str | None = None

    def without_overfit(self) -> Fitted:
        """A copy without the warnings about overfitting."""
        assert self.fit is not None
        remarks = tuple(remark for remark in self.fit.remarks if not remark.overfit)
        return self._replace(fit=self.fit._replace(remarks=remarks))


def projection(rows: Rows, solution: Solution, view: int) -> Projection:
    """The function from rows of a view to their scores."""
    mean, weights = (solution.mean_y, solution.y_weights) if view else (solution.mean_x, solution.x_weights)
    features = None if rows.learned is None else rows.learned.maps[view]
    return Projection(mean, weights, "Xy"[view], rows.names[view], features)


def named(names: Array | None) -> Array | None:
    """Names of columns as an array of objects, like scikit-learn's; None stays None."""
    return None if names is None else np.asarray(names, dtype=object)


def without_features(solution: Solution) -> Solution:
    """A copy of a kernel's solution without loadings, scales, slopes and tests: those are of columns."""
    none = np.empty(0)
    return solution._replace(
        x_loadings=none,
        y_loadings=none,
        std_x=none,
        std_y=none,
        y_slopes=none,
        redundancy=None,
        spectrum=None,
    )
