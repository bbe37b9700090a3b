"""How much correlation a run has captured, point by point: on its rows, on others, at what cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..covariance import Covariance, units
from ..estimators import CCA
from ..linalg import captured
from ..loaders import Paired
from ..moments import moments
from ..options import ITERATIVE
from ..solve import Progress
from ..views import Array, ArrayViews
from .records import Writer

# The paper's algorithms to the letter, with a number as step: neither preconditioner nor oversampling.
LETTER = {"preconditioner": None, "oversampling": 0, "tol": 0}


class Judge:
    """Total correlation captured by weights, on the rows of the fit and on others, without a ridge."""

    def __init__(self, name: str, data: Paired, k: int, center: bool = True) -> None:
        self.name, self.data, self.k = name, data, k
        self._covs = [_unregularised(X, y, center) for X, y in ((data.X, data.y), (data.X_test, data.y_test))]

    def longest_step(self) -> float:
        """One over the largest eigenvalue of both covariances, by twenty powers."""
        rng, (cov, _) = np.random.default_rng(0), self._covs
        A, B = (rng.standard_normal((view.shape[1], 4)) for view in (self.data.X, self.data.y))
        for _ in range(20):
            A, B = (np.linalg.qr(C)[0] for C in cov.squares(A, B))
        return float(1 / max(np.linalg.norm(C, 2) for C in cov.squares(A, B)))

    def tcc(self, A: Array, B: Array) -> tuple[float, float]:
        """In sample and out of sample."""
        inside, outside = (float(captured(*cov.grams(A, B), self.k)[2]) for cov in self._covs)
        return inside, outside


class Curve(NamedTuple):
    """A method, what it is called with, and after how many iterations it is looked at."""

    method: str
    params: dict[str, Any]
    iterations: list[int]


def checkpoints(last: int, each_decade: int = 8) -> list[int]:
    """Iterations from 1 to the last, evenly on a logarithmic axis."""
    count = round(each_decade * np.log10(max(last, 10))) + 1
    return sorted({round(t) for t in np.geomspace(1, last, count)})


def our_curves(ends: tuple[int, int, int], each_decade: int = 8, **stochastic: Any) -> list[Curve]:
    """Preconditioned AppGrad, stochastic AppGrad and LOBPCG, to these numbers of iterations."""
    methods = {
        "AppGrad, preconditioned": {"solver": "appgrad"},
        "stochastic AppGrad, preconditioned": {"solver": "stochastic", **stochastic},
        "LOBPCG": {"solver": "lobpcg"},
    }
    return [
        Curve(method, {**params, "tol": 0}, checkpoints(end, each_decade))
        for (method, params), end in zip(methods.items(), ends, strict=True)
    ]


# Multiples of the longest step that are tried, and iterations of a trial.
MULTIPLES = {"appgrad": (0.5, 1.0, 1.5, 2.0, 3.0), "stochastic": (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)}
TRIAL = {"appgrad": 30, "stochastic": 300}


def with_step(writer: Writer, judge: Judge, curve: Curve, common: dict[str, Any]) -> Curve:
    """The same with the constant step that captures most on a tenth of the training rows, held out.

    The paper chooses steps by cross-validation on a small part of the training set.
    """
    data, solver = judge.data, curve.params["solver"]
    order = np.random.default_rng(0).permutation(data.X.shape[0])
    held, rest = np.sort(order[: len(order) // 10]), np.sort(order[len(order) // 10 :])
    trial = Judge(judge.name, Paired(data.X[rest], data.y[rest], data.X[held], data.y[held]), judge.k)
    longest, found = judge.longest_step(), {}
    for multiple in MULTIPLES[solver]:
        step = float(f"{multiple * longest:.3g}")
        params = {"step_size": step, "max_iter": min(TRIAL[solver], curve.iterations[-1]), "random_state": 0}
        model = _fitted(trial, common | curve.params | params)
        found[step] = trial.tcc(model.x_weights_, model.y_weights_)[1]
        facts = {"set": judge.name, "method": curve.method, "iterations": params["max_iter"]}
        writer.add(kind="step", **facts, step=step, tcc=found[step])
    best = max(found, key=lambda step: found[step])
    return curve._replace(params=curve.params | {"step_size": best})


def _fitted(judge: Judge, params: dict[str, Any]) -> CCA:
    if "batch_size" in params:
        # Data sets may be smaller than those of the paper.
        params = params | {"batch_size": min(params["batch_size"], judge.data.X.shape[0] // 4)}
    with warnings.catch_warnings():
        # The budget is the purpose of the run.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return CCA(judge.k, **params).fit(judge.data.X, judge.data.y)


def add_curve(writer: Writer, judge: Judge, curve: Curve, seed: int, common: dict[str, Any]) -> None:
    """Run a method and write a record for each checkpoint; the time of looking is not counted."""
    looking = 0.0
    wanted, params = set(curve.iterations), common | curve.params
    facts = {"set": judge.name, "method": curve.method, "seed": seed}
    paper = _paper_cost(judge.data, judge.k, params)
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
    _fitted(judge, params | run)


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
        flops=model.history_[-1]["flops"] if model.solver_ in ITERATIVE else direct_flops(data),
        seconds=seconds,
        tcc_in=inside,
        tcc_out=outside,
        residual=float(model.residuals_.max()),
    )


def add_sizes(writer: Writer, name: str, data: Paired) -> None:
    """Write what Table 1 says of a data set."""
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


def _unregularised(X: Any, y: Any, center: bool) -> Covariance:
    views = ArrayViews(X, y)
    found = moments(views, center)
    return Covariance(views, found, units(found, views.dtype, ridge=0.0))


def _paper_cost(data: Paired, k: int, params: dict[str, Any]) -> float | None:
    """Operations of an iteration by the formulas of the authors' figures; None for other methods."""
    p = (data.X.shape[1] + data.y.shape[1]) / 2
    if params.get("preconditioner", "auto") is not None:
        return None
    return paper_flops(params["solver"], data.X.shape[0], p, k, params.get("batch_size", 200))


def paper_flops(solver: str, n: int, p: float, k: int, batch_size: int) -> float:
    """20 n p k for AppGrad, p (16 k m + 40 k^2) for a minibatch of m rows: every row counts as full."""
    return 20.0 * n * p * k if solver == "appgrad" else p * (16.0 * k * batch_size + 40.0 * k**2)


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
