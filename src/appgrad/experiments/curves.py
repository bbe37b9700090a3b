"""Correlation captured by a run, point by point: on its rows, on others, and at what cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..covariance.linalg import captured
from ..covariance.moments import moments
from ..covariance.rows import RowCovariance
from ..covariance.units import units
from ..data.arrays import ArrayViews
from ..datasets.loaders import Paired
from ..estimators.cca import CCA
from ..machine.arrays import Array
from ..solvers.problem import Progress
from ..solvers.registry import is_iterative
from .records import Writer

# The paper's algorithms to the letter, with a number as step: neither preconditioner nor oversampling.
LETTER = {"preconditioner": None, "oversampling": 0, "tol": 0}


class Judge:
    """Total correlation captured by weights, on the rows of the fit and on others, without a ridge."""

    def __init__(self, name: str, data: Paired, k: int, center: bool = True) -> None:
        self.name, self.data, self.k, self.center = name, data, k, center
        self._covs = [_unregularised(X, y, center) for X, y in ((data.X, data.y), (data.X_test, data.y_test))]

    def longest_step(self) -> float:
        """One over the largest eigenvalue of both covariances, by twenty powers."""
        rng, (cov, _) = np.random.default_rng(0), self._covs
        A, B = (rng.standard_normal((view.shape[1], 4)) for view in (self.data.X, self.data.y))
        for _ in range(20):
            A, B = (np.linalg.qr(C)[0] for C in cov.squares(A, B))
        return float(1 / max(np.linalg.norm(C, 2) for C in cov.squares(A, B)))

    def tcc(self, A: Array, B: Array) -> tuple[float, float]:
        """Total correlation captured in sample and out of sample."""
        inside, outside = (float(captured(*cov.grams(A, B), self.k)[2]) for cov in self._covs)
        return inside, outside


class StepSearch(NamedTuple):
    """A search for a constant step: ratio between the steps tried, and the fewest iterations of a trial."""

    ratio: float
    least: int


class Curve(NamedTuple):
    """A method, its parameters, the iterations after which it is measured, and the number of seeds.

    With `search`, a step size is chosen first. `paper` is the authors' formula for the operations of an
    iteration: of n rows, p columns a view, k components and minibatches of m rows.
    """

    method: str
    params: dict[str, Any]
    iterations: list[int]
    seeds: int = 1
    search: StepSearch | None = None
    paper: Callable[[int, float, int, int], float] | None = None


def checkpoints(last: int, each_decade: int = 8) -> list[int]:
    """Iterations from 1 to the last, evenly on a logarithmic axis."""
    count = round(each_decade * np.log10(max(last, 10))) + 1
    return sorted({round(t) for t in np.geomspace(1, last, count)})


def letter_curves(
    ends: tuple[int, int], each_decade: int = 8, seeds: int = 1, **stochastic: Any
) -> list[Curve]:
    """The paper's algorithms to these numbers of iterations, with steps to be chosen."""
    minibatches = {"solver": "stochastic", "normaliser": "batch", **stochastic}
    looks = [checkpoints(end, each_decade) for end in ends]
    return [
        Curve(
            "AppGrad",
            {"solver": "appgrad", **LETTER},
            looks[0],
            search=StepSearch(1.5, 30),
            paper=batch_flops,
        ),
        Curve(
            "stochastic AppGrad", minibatches | LETTER, looks[1], seeds, StepSearch(2.0, 300), minibatch_flops
        ),
    ]


def our_curves(
    ends: tuple[int, int, int], each_decade: int = 8, seeds: int = 1, **stochastic: Any
) -> list[Curve]:
    """Preconditioned AppGrad, stochastic AppGrad and LOBPCG, to these numbers of iterations."""
    looks = [checkpoints(end, each_decade) for end in ends]
    minibatches = {"solver": "stochastic", "tol": 0, **stochastic}
    return [
        Curve("AppGrad, preconditioned", {"solver": "appgrad", "tol": 0}, looks[0]),
        Curve("stochastic AppGrad, preconditioned", minibatches, looks[1], seeds),
        Curve("LOBPCG", {"solver": "lobpcg", "tol": 0}, looks[2]),
    ]


# Relative gain that a better step must have, or the search would go on to tiny steps for the last digits; and
# the number of diverging steps after which it gives up.
GAIN, SHORTEST = 1e-3, 20


def with_step(
    writer: Writer, judge: Judge, curve: Curve, search: StepSearch, common: dict[str, Any]
) -> Curve:
    """The curve with the constant step that captures most on a tenth of the training rows, held out.

    Steps start at one over the largest eigenvalue and get longer while that captures more, else shorter. A
    step that has to be cut because the iterate diverges does not count. A trial is a tenth as long as the
    run. The paper chooses steps by cross-validation on a small part of the training set.
    """
    data = judge.data
    order = np.random.default_rng(0).permutation(data.X.shape[0])
    held, rest = np.sort(order[: len(order) // 10]), np.sort(order[len(order) // 10 :])
    parts = Paired(data.X[rest], data.y[rest], data.X[held], data.y[held])
    trial = Judge(judge.name, parts, judge.k, judge.center)
    last = curve.iterations[-1]
    length, longest = min(last, max(search.least, last // 10)), judge.longest_step()

    def tried(power: int) -> tuple[float, float]:
        """The correlation that a step captures (-1 if it had to be cut), and the step."""
        step = float(f"{longest * search.ratio**power:.3g}")
        params = {"step_size": step, "max_iter": length, "random_state": 0}
        model = _fitted(trial, common | curve.params | params)
        tcc, steady = trial.tcc(model.x_weights_, model.y_weights_)[1], not events_of(model)
        facts = {"set": judge.name, "method": curve.method, "iterations": length, "step": step}
        writer.add(kind="step", **facts, tcc=tcc, steady=steady)
        return (tcc if steady else -1.0), step

    def better(found: tuple[float, float]) -> bool:
        return found[0] - best[0] > GAIN * abs(best[0])

    best, power = tried(0), 1
    while better(found := tried(power)):
        best, power = found, power + 1
    if power == 1:
        # No longer step is better: try shorter ones.
        power = -1
        while better(found := tried(power)) or (power > -SHORTEST and best[0] < 0):
            best, power = found, power - 1
    if best[0] < 0:
        raise ValueError(f"{judge.name}: no constant step of {curve.method} is steady")
    return curve._replace(params=curve.params | {"step_size": best[1]})


def events_of(model: CCA) -> list[dict[str, Any]]:
    """Steps of a run with an event, such as a step that had to be cut."""
    return [step for step in model.history_ if "event" in step]


def _fitted(judge: Judge, params: dict[str, Any]) -> CCA:
    if "batch_size" in params:
        # Data sets may be smaller than those of the paper.
        params = params | {"batch_size": min(params["batch_size"], judge.data.X.shape[0] // 4)}
    with warnings.catch_warnings():
        # The run is meant to end by its budget.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return CCA(judge.k, **params).fit(judge.data.X, judge.data.y)


def add_curves(
    writer: Writer, judge: Judge, curves: Iterable[Curve], common: dict[str, Any]
) -> Iterator[str]:
    """Write records of all curves; yields a text before each."""
    for curve in curves:
        if curve.search is not None:
            yield f"{judge.name}: {curve.method}: choosing a step"
            curve = with_step(writer, judge, curve, curve.search, common)
        for seed in range(curve.seeds):
            yield f"{judge.name}: {curve.method}" + (f", seed {seed}" if curve.seeds > 1 else "")
            add_curve(writer, judge, curve, seed, common)


def add_curve(writer: Writer, judge: Judge, curve: Curve, seed: int, common: dict[str, Any]) -> None:
    """Run a method and write a record for each checkpoint; the time of measuring is not counted."""
    looking = 0.0
    wanted, params = set(curve.iterations), common | curve.params
    facts = {"set": judge.name, "method": curve.method, "seed": seed}
    paper = _paper_cost(judge, curve, params)
    writer.add(kind="curve", **facts, params=params)

    def look(progress: Progress) -> None:
        nonlocal looking
        if progress.iteration not in wanted:
            return
        start = time.perf_counter()
        found = progress.solution()
        inside, outside = judge.tcc(found.x_weights, found.y_weights)
        writer.add(
            kind="point",
            **facts,
            iteration=progress.iteration,
            flops=progress.flops,
            paper_flops=None if paper is None else paper * progress.iteration,
            seconds=progress.seconds - looking,
            tcc_in=inside,
            tcc_out=outside,
        )
        looking += time.perf_counter() - start

    run = {"max_iter": curve.iterations[-1], "random_state": seed, "callback": look}
    for step in events_of(_fitted(judge, params | run)):
        writer.add(kind="event", **facts, iteration=step["iteration"], event=step["event"])


def add_solution(writer: Writer, judge: Judge, method: str, params: dict[str, Any]) -> None:
    """Run a method to its end and write one record of it."""
    data, start = judge.data, time.perf_counter()
    model = CCA(judge.k, **params).fit(data.X, data.y)
    seconds = time.perf_counter() - start
    inside, outside = judge.tcc(model.x_weights_, model.y_weights_)
    writer.add(
        kind="solution",
        set=judge.name,
        method=method,
        iteration=max(model.n_iter_),
        passes=model.n_passes_,
        flops=model.history_[-1]["flops"] if is_iterative(model.solver_) else direct_flops(data),
        seconds=seconds,
        tcc_in=inside,
        tcc_out=outside,
        residual=float(model.residuals_.max()),
    )


def add_sizes(writer: Writer, name: str, data: Paired) -> None:
    """Write the sizes of a data set, as in Table 1."""
    views = ArrayViews(data.X, data.y)
    writer.add(
        kind="sizes",
        set=name,
        n=views.n_samples,
        n_test=data.X_test.shape[0],
        p1=views.n_features_x,
        p2=views.n_features_y,
        entries=float(views.entries),
    )


def direct_flops(data: Paired) -> float:
    """Multiplications and additions of `exact`: Z'Z of Z = [X Y], and its factors (a few times p^3)."""
    n, p = float(data.X.shape[0]), data.X.shape[1] + data.y.shape[1]
    return float(n * p**2 + 2.0 * p**3)


def _unregularised(X: Any, y: Any, center: bool) -> RowCovariance:
    views = ArrayViews(X, y)
    found = moments(views, center)
    return RowCovariance(views, found, units(found, views.dtype, ridge=0.0))


def _paper_cost(judge: Judge, curve: Curve, params: dict[str, Any]) -> float | None:
    """Operations of an iteration by the formula of the authors' figures; None for other methods."""
    (n, p1), p2 = judge.data.X.shape, judge.data.y.shape[1]
    return curve.paper and curve.paper(n, (p1 + p2) / 2, judge.k, params.get("batch_size", 200))


def batch_flops(n: int, p: float, k: int, m: int) -> float:
    """Operations of an iteration of AppGrad by the authors' formula, 20 n p k: rows count as dense."""
    return 20.0 * n * p * k


def minibatch_flops(n: int, p: float, k: int, m: int) -> float:
    """Operations of a minibatch by the authors' formula, p (16 k m + 40 k^2): rows count as dense."""
    return p * (16.0 * k * m + 40.0 * k**2)


def reached(points: Iterable[dict[str, Any]], level: float, value: str, cost: str) -> float | None:
    """The cost at which a curve first reaches a level, interpolated on a logarithmic axis; None if never."""
    last = None
    for point in points:
        if point[value] >= level:
            if last is None or point[value] == last[value]:
                return float(point[cost])
            share = (level - last[value]) / (point[value] - last[value])
            return float(np.exp((1 - share) * np.log(last[cost]) + share * np.log(point[cost])))
        last = point
    return None
