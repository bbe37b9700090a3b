"""What a fitted model says of itself: its noise level, on how many rows it rests, and tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from ..data.views import Views
from ..inference.canonical_test import HELD_OUT, METHODS, PARAMETRIC, PERMUTATION, CanonicalTest
from ..inference.noise import Noise, dimensions_of, noise_of, ridge_matters
from ..inference.permutation import Callback, Shuffle, require_resamples
from ..inference.testing import (
    Resampling,
    by_permutation,
    by_theory,
    on_held_out,
    require_scores,
    scores_fit,
    spectrum_of,
)
from ..machine.arrays import Array
from ..solvers.problem import Dimensions, Problem, Spectrum
from ..solvers.protocol import Options
from .attributes import FittedAttributes, read_only

OLD = "the model was saved by a version that did not keep the numbers of independent columns: fit it again"
# The least rows on either side of a split.
FEWEST = 3


class TrustAttributes(FittedAttributes):
    """The noise level, effective rows and tests of all estimators."""

    # Set by the estimators.
    problem_and_options: Callable[[], tuple[Problem, Options]]
    _views: Callable[[Any, Any], Views]
    # Why there are no tests of normal rows and no noise level for an estimator; empty if there are.
    _no_theory: ClassVar[str] = ""
    # True if scores are sums of weighted columns.
    _has_columns: ClassVar[bool] = True

    @property
    def noise_level_(self) -> float:
        """The correlation that the first one of noise exceeds in 5 % of all data sets; NaN if not known."""
        return self.noise.level

    @property
    def noise_edge_(self) -> float:
        """Where the first correlation of noise is for large views (Wachter 1980); NaN if not known."""
        return self.noise.edge

    @property
    def noise_level_reason_(self) -> str:
        """Why the noise level is not known; empty if it is."""
        return self.noise.reason

    @property
    def effective_rows_(self) -> Array:
        """On about how many rows each component rests; NaN where no pass was made for it."""
        found = self._solved()
        k = len(found.solution.correlations)
        return read_only(np.full(k, np.nan) if found.effective_rows is None else found.effective_rows)

    @property
    def has_all_roots(self) -> bool:
        """True if tests of normal rows hold and need no rows: the model has all correlations."""
        return self._solved().solution.spectrum is not None and not self.noise.reason

    def debiased_correlations(self) -> Array:
        """Correlations without what noise adds to them; NaN at or below Wachter's edge, and if not known.

        Correlations of training rows are too large, by more the more columns there are for each row. For
        large views the excess is known, and is taken away here (Bao, Hu, Pan & Zhou 2019).

        Examples
        --------
        >>> from appgrad import CCA
        >>> from appgrad.datasets import planted
        >>> p = planted(1000, 100, 100, [0.8], random_state=0)
        >>> model = CCA(2).fit(p.X, p.y)
        >>> model.canonical_correlations_.round(2), model.debiased_correlations().round(2)
        (array([0.84, 0.6 ]), array([0.79,  nan]))
        """
        return self.noise.debiased(self._solved().solution.correlations)

    def test(
        self,
        X: Any = None,
        y: Any = None,
        *,
        method: str = "auto",
        n_resamples: int = 999,
        groups: Any = None,
        rng: Any = None,
        callback: Callback | None = None,
    ) -> CanonicalTest:
        """Test whether the views are related, and by how many components.

        Parameters
        ----------
        X, y : the two views, as for `fit`, optional
            The rows to test. Models of direct solvers, and of streams that keep sums, need none for tests of
            normal rows.
        method : {"auto", "parametric", "permutation", "held-out"}, default="auto"
            "parametric" are Wilks' step-down tests, Bartlett's, Pillai's, Hotelling-Lawley's and Roy's, for
            normal rows. "permutation" permutes the rows of all canonical scores, step by step. "held-out"
            fits a second model to half of the rows, and permutes those of the other half. "auto" is the first
            one that holds: with a ridge that matters "permutation", and where columns force correlations
            of 1, or all scores do not fit into memory, "held-out".
        n_resamples : int, default=999
            Number of permutations. The least p-value is 1 / (n_resamples + 1).
        groups : array-like of shape (n_samples,), optional
            Rows change places within their group only: subjects, sites, days.
        rng : int or Generator, optional
            Draws the permutations, and the rows held out.
        callback : callable, optional
            Called with the number of permutations done and asked for.

        Returns
        -------
        CanonicalTest
            With `p_values`, `table`, `multivariate`, `summary()` and `to_json()`.

        Examples
        --------
        >>> from sklearn.datasets import load_linnerud
        >>> from appgrad import CCA
        >>> X, y = load_linnerud(return_X_y=True)
        >>> found = CCA(1).fit(X, y).test()
        >>> found.p_values.round(4), round(found.statistics["Roy's greatest root"].p, 4)
        (array([0.0635, 0.9491, 0.7748]), 0.0205)
        """
        fit = self._solved()
        if method not in METHODS:
            raise ValueError(f"method must be one of {list(METHODS)}, got {method!r}")
        if method in (PERMUTATION, HELD_OUT) or groups is not None:
            require_resamples(n_resamples)
        if X is None and y is not None:
            raise ValueError("y alone is no pair of views: give test(X, y), or neither")
        if self._no_theory and method in (PARAMETRIC, PERMUTATION):
            raise ValueError(f"{self._no_theory}: use method={HELD_OUT!r}, test(X, y, method={HELD_OUT!r})")
        if X is None:
            return self._tested_by_sums(fit.solution.spectrum, method, groups)
        require_resamples(n_resamples)
        views = self._views(X, y)
        groups = None if groups is None else np.asarray(groups)
        if groups is not None:
            Shuffle(views.n_samples, groups, np.random.default_rng(0))
        resampling = Resampling(int(n_resamples), np.random.default_rng(rng), groups, callback)
        return self._tested_on(views, method, resampling)

    @property
    def noise(self) -> Noise:
        """The noise level of the fit, with the dimensions it is for."""
        found = self._solved().dimensions
        return noise_of(Dimensions(0, (0, 0), False, OLD) if found is None else found)

    def _tested_by_sums(self, spectrum: Spectrum | None, method: str, groups: Any) -> CanonicalTest:
        """The tests that need no rows; ValueError says why they need them."""
        if method in (PERMUTATION, HELD_OUT) or groups is not None:
            what = f"method={method!r} needs" if groups is None else "groups are for permutations, which need"
            raise ValueError(f"{what} rows: give test(X, y)")
        if self._no_theory:
            raise ValueError(f"{self._no_theory}: give rows, test(X, y), to test held-out ones")
        dimensions = self.noise.dimensions
        if spectrum is None:
            raise ValueError(
                "this model has only its own components, and tests need all correlations: give rows, "
                "test(X, y), or fit with solver='exact' or 'qr'"
            )
        if dimensions.reason:
            raise ValueError(f"{dimensions.reason}: no theory holds. Give rows, test(X, y), to permute them")
        return by_theory(spectrum, dimensions, self.n_samples_)

    def _tested_on(self, views: Views, method: str, resampling: Resampling) -> CanonicalTest:
        """Test these rows by this method, or by the first one that holds."""
        if self._no_theory or method == HELD_OUT:
            return self._tested_on_held_out(views, resampling, self._no_theory)
        problem = self.problem_and_options()[0]._replace(n_components=1)
        try:
            spectrum = spectrum_of(views, problem)
        except ValueError:
            if method != "auto":
                raise
            return self._tested_on_held_out(views, resampling, "the covariances do not fit into memory")
        dimensions = self._dimensions(spectrum, views)
        # Groups are there to be respected, which theory cannot.
        permuted = method == PERMUTATION or (method == "auto" and resampling.groups is not None)
        if not permuted and not dimensions.reason:
            return by_theory(spectrum, dimensions, views.n_samples)
        if method == PARAMETRIC:
            raise ValueError(f"{dimensions.reason}: no theory holds. Use method='auto' to permute rows")
        reason = dimensions.reason or ("rows have groups" if method == "auto" else "")
        forced = sum(spectrum.ranks) >= spectrum.rows and not ridge_matters(spectrum)
        if method == "auto" and (forced or not scores_fit(views)):
            return self._tested_on_held_out(views, resampling, reason)
        if forced:
            raise ValueError(
                f"{dimensions.reason}, also of permuted rows: set a ridge, or use method={HELD_OUT!r}"
            )
        require_scores(views)
        return by_permutation(views, problem, spectrum, resampling, reason)

    def _dimensions(self, spectrum: Spectrum, views: Views) -> Dimensions:
        problem = self.problem_and_options()[0]
        solution = self._solved().solution._replace(spectrum=spectrum)
        return dimensions_of(solution, views.n_samples, (views.n_features_x, views.n_features_y), problem)

    def _tested_on_held_out(self, views: Views, resampling: Resampling, reason: str) -> CanonicalTest:
        """Fit a model like this one to half of the rows, and test its components on the others."""
        n = views.n_samples
        if n < 2 * FEWEST:
            raise ValueError(f"{n} rows cannot be split: a held-out test needs at least {2 * FEWEST}")
        order = resampling.rng.permutation(n)
        train, test = np.sort(order[: n // 2]), np.sort(order[n // 2 :])
        model = clone(self).set_params(checkpoint=None, verbose=0)
        if "callback" in model.get_params():
            model.set_params(callback=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(views.take(train))
        U, V = model.array_scores(views.take(test))
        groups = None if resampling.groups is None else resampling.groups[test]
        return on_held_out(
            U,
            V,
            model.training_correlations_,
            (views.n_features_x, views.n_features_y),
            resampling._replace(groups=groups),
            reason,
        )
