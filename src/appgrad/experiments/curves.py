"""Correlation captured by a run, point by point: on its rows, on others, and at what cost."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
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
    facts = {"set": judge.name, "method": curve.method}
    if chosen := writer.found(kind="curve", **facts):
        # The run that was stopped had chosen already.
        return curve._replace(params=curve.params | {"step_size": chosen[0]["params"]["step_size"]})
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
        here = {"kind": "step", **facts, "iterations": length, "step": step}
        known = writer.found(**here)
        if not known:
            params = {"step_size": step, "max_iter": length, "random_state": 0}
            model = _fitted(trial, common | curve.params | params)
            tcc, steady = trial.tcc(model.x_weights_, model.y_weights_)[1], not events_of(model)
            known = [writer.add(**here, tcc=tcc, steady=steady)]
        # As recorded, so that a run that goes on from the records chooses the same.
        return (known[0]["tcc"] if known[0]["steady"] else -1.0), step

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
            if not writer.found(kind="curve", set=judge.name, method=curve.method):
                yield f"{judge.name}: {curve.method}: choosing a step"
            curve = with_step(writer, judge, curve, curve.search, common)
        for seed in range(curve.seeds):
            if not writer.found(kind="curve end", set=judge.name, method=curve.method, seed=seed):
                yield f"{judge.name}: {curve.method}" + (f", seed {seed}" if curve.seeds > 1 else "")
            add_curve(writer, judge, curve, seed, common)


# Seconds between two checkpoints of a curve. Writing one takes a fraction of a second, which counts as time
# of the run: the longer between two, the less.
EVERY = 60.0


def add_curve(writer: Writer, judge: Judge, curve: Curve, seed: int, common: dict[str, Any]) -> None:
    """Run a method and write a record for each checkpoint; the time of measuring is not counted.

    A run that was stopped goes on from its last state on disk. Points that it had recorded stay.
    """
    params = common | curve.params
    facts = {"set": judge.name, "method": curve.method, "seed": seed}
    if not writer.found(kind="curve", **facts):
        writer.checkpoint.unlink(missing_ok=True)
    writer.declare({"kind": "curve", **facts}, params=params)
    if writer.found(kind="curve end", **facts):
        return
    paper = _paper_cost(judge, curve, params)
    run = {"max_iter": curve.iterations[-1], "random_state": seed, "checkpoint": (writer.checkpoint, EVERY)}
    try:
        model = _fitted(judge, params | run | {"callback": _look(writer, judge, curve, facts, paper)})
    except PointLostError:
        writer.checkpoint.unlink()
        model = _fitted(judge, params | run | {"callback": _look(writer, judge, curve, facts, paper)})
    writer.add(kind="curve end", **facts, iterations=max(model.n_iter_))
    writer.checkpoint.unlink(missing_ok=True)


class PointLostError(Exception):
    """A run was stopped after its state was written, and before the point of that state was."""


def _look(
    writer: Writer, judge: Judge, curve: Curve, facts: dict[str, Any], paper: float | None
) -> Callable[[Progress], None]:
    """A callback that records the points of a curve, and events, unless the stopped run has."""
    known = writer.found(kind="point", **facts)
    events = {one["iteration"] for one in writer.found(kind="event", **facts)}
    wanted = set(curve.iterations) - {point["iteration"] for point in known}
    looking: float | None = None

    def look(progress: Progress) -> None:
        nonlocal looking
        t = progress.iteration
        if looking is None:
            if min(wanted, default=t) < t:
                raise PointLostError
            # Measuring before the state that this run goes on from, which counts those seconds, too.
            looking = max((point["measuring"] for point in known if point["iteration"] < t), default=0.0)
        if progress.event is not None and t not in events:
            writer.add(kind="event", **facts, iteration=t, event=progress.event)
        if t not in wanted:
            return
        start = time.perf_counter()
        found = progress.solution()
        inside, outside = judge.tcc(found.x_weights, found.y_weights)
        seconds = progress.seconds - looking
        looking += time.perf_counter() - start
        writer.add(
            kind="point",
            **facts,
            iteration=t,
            flops=progress.flops,
            paper_flops=None if paper is None else paper * t,
            seconds=seconds,
            tcc_in=inside,
            tcc_out=outside,
            measuring=looking,
        )

    return look


def add_solution(writer: Writer, judge: Judge, method: str, params: dict[str, Any]) -> Iterator[str]:
    """Run a method to its end and write one record of it; yields a text before."""
    if writer.found(kind="solution", set=judge.name, method=method):
        return
    yield f"{judge.name}: {method}"
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
    """Write the sizes of a data set, as in Table 1, and a hash of its values."""
    views = ArrayViews(data.X, data.y)
    writer.declare(
        {"kind": "sizes", "set": name},
        n=views.n_samples,
        n_test=data.X_test.shape[0],
        p1=views.n_features_x,
        p2=views.n_features_y,
        entries=float(views.entries),
        sha256=_digest(data),
    )


def _digest(data: Paired) -> str:
    """A hash of all values of a data set."""
    found = hashlib.sha256()
    parts: list[Any] = [part for part in data if part is not None]
    for part in parts:
        for array in (part.data, part.indices, part.indptr) if sp.issparse(part) else (part,):
            found.update(f"{array.dtype} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).view(np.uint8).data)
    return found.hexdigest()[:16]


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
