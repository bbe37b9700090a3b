"""What a fitted model says of itself: its noise level, on how many rows it rests, and tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..data.derived import CountedViews
from ..data.sources import is_views
from ..data.views import Views
from ..fitting.fit import Fit
from ..fitting.progress import counted
from ..fitting.remarks import overfit_remarks
from ..inference.effective_rows.components import effective_rows, few_rows
from ..inference.methods import Question, Refit, Refitted, Resampling, by_theory, tested
from ..inference.noise import Noise, dimensions_of, noise_of
from ..inference.permutation import Callback, group_codes, require_groups, require_resamples
from ..inference.results import HELD_OUT, METHODS, PARAMETRIC, PERMUTATION, CanonicalTest
from ..machine.arrays import Array
from ..machine.threads import blas_limit
from ..solvers.problem import Dimensions, Problem, Solution, Spectrum
from ..solvers.protocol import Options
from .attributes import FittedAttributes, read_only

NEW_FIT = (
    "These correlations are of a new fit to the rows given. For those of this model on other rows, see score."
)
OLD = "the model was saved by a version that did not keep the numbers of independent columns: fit it again"


class TrustAttributes(FittedAttributes):
    """The noise level, effective rows and tests of all estimators."""

    # Set by the estimators.
    verbose: int
    problem_and_options: Callable[[], tuple[Problem, Options]]
    _views: Callable[[Any, Any], Views]
    _kept: Callable[[Solution], Solution]
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
    def tests_need_no_rows(self) -> bool:
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
            The rows to test, with the parameters that the model has now. Models of direct solvers, and of
            streams that keep sums, need none for tests of normal rows.
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
            Called with the number of permutations done and asked for. Without one, the model's `verbose` logs
            (1) or shows as a line on the terminal (2) how far they are.

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
        require_resamples(n_resamples)
        generator = np.random.default_rng(rng)
        if X is None and y is not None:
            raise ValueError("y alone is no pair of views: give test(X, y), or neither")
        if X is not None and y is None and not is_views(X):
            raise ValueError("X alone is no pair of views: give test(X, y), or neither")
        if self._no_theory and method in (PARAMETRIC, PERMUTATION):
            raise ValueError(f"{self._no_theory}: use method={HELD_OUT!r}")
        if X is None:
            return self._tested_by_sums(fit.solution.spectrum, method, groups)
        views = self._views(X, y)
        if groups is not None:
            groups = group_codes(groups, views.n_samples)
            require_groups(groups, views.n_samples)
        problem, options = self.problem_and_options()
        with counted("test", "permutations", 0 if callback is not None else self.verbose) as shown:
            resampling = Resampling(int(n_resamples), generator, groups, callback or shown)
            refit = self._refit(views, generator)
            question = Question(views, problem, options.solver, resampling, refit, self._no_theory)
            found = tested(question, method)
        return found if self._is_of_fit(found, views) else replace(found, notes=(NEW_FIT, *found.notes))

    @property
    def noise(self) -> Noise:
        """The noise level of the fit, with the dimensions it is for."""
        found = self._solved().dimensions
        return noise_of(Dimensions(0, (0, 0), False, OLD) if found is None else found)

    def _judged(self, found: Fit, views: CountedViews, options: Options, threads: int | None) -> Fit:
        """The fit with its dimensions, and on how many rows its components rest: one more pass."""
        n, columns = views.n_samples, (views.n_features_x, views.n_features_y)
        kept = self._kept(found.solution)
        found = found._replace(dimensions=self._dimensions_of(found.solution, n, columns))
        most = options.limits.passes
        spent = most is not None and views.passes + 1 > most
        if not self._has_columns or found.interrupted or spent:
            return found._replace(solution=kept)
        with nullcontext() if threads is None else blas_limit(threads):
            try:
                rows = effective_rows(views, found.solution)
            except KeyboardInterrupt:
                # The run is over: its result is not given up.
                return found._replace(solution=kept, interrupted=True)
        remarks = (*found.remarks, *overfit_remarks(few_rows(rows, n, kept.training_correlations)))
        return found._replace(solution=kept, effective_rows=rows, passes=views.passes, remarks=remarks)

    def _dimensions_of(self, solution: Solution, n: int, columns: tuple[int, int]) -> Dimensions:
        """The dimensions that tests need; with the reason if no theory holds for this estimator."""
        if self._no_theory:
            return Dimensions(n, (0, 0), False, self._no_theory)
        return dimensions_of(solution, n, columns, self.problem_and_options()[0])

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
                "test(X, y), or fit with solver='exact', or 'qr'"
            )
        if dimensions.reason:
            raise ValueError(f"{dimensions.reason}: no theory holds. Give rows, test(X, y), to permute them")
        found = by_theory(spectrum, dimensions, self.n_samples_, self.problem_and_options()[0].center)
        few = few_rows(self.effective_rows_, self.n_samples_, self.training_correlations_)
        return replace(found, notes=(*found.notes, *few))

    def _is_of_fit(self, found: CanonicalTest, views: Views) -> bool:
        """True if a test seems to be of the rows of the fit: as many, with the same correlations."""
        ours = self.canonical_correlations_
        theirs = found.columns["Canonical Correlation"][: len(ours)]
        same = views.n_samples == self.n_samples_ and len(theirs) == len(ours)
        return found.method == HELD_OUT or (same and bool(np.allclose(ours, theirs, rtol=0, atol=1e-3)))

    def _refit(self, views: Views, rng: np.random.Generator) -> Refit:
        """The function that fits a model like this one to some rows and scores others."""

        def refit(train: Array, test: Array) -> Refitted:
            model = clone(self).set_params(checkpoint=None, callback=None, verbose=0)
            if model.random_state is None:
                model.set_params(random_state=int(rng.integers(2**31)))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model.fit(views.take(train))
            U, V = model.array_scores(views.take(test))
            said = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
            remarks = tuple(f"The second fit: {text}" for text in said)
            return Refitted(U, V, model.training_correlations_, remarks)

        return refit
