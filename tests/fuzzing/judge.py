"""What is wrong with a fit, in one line each; nothing where all is well."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from appgrad.fitting.remarks import OverfitWarning
from appgrad.solvers import registry
from appgrad.solvers.sparse.regressions import NothingLeftError

from .problems import Data, Rng
from .settings import Setting, model_of
from .truth import Truth

DIRECT, ITERATIVE = 1e-6, 1e-3
# Errors that are right to raise: no answer exists, or the options do not fit the data.
RANK = ("rank of the data", "components have scores that vary", "can be told apart")


class Failure(NamedTuple):
    """A kind of failure, and what was found."""

    kind: str
    text: str


class Verdict(NamedTuple):
    """What is wrong with a fit, and whether its correlations were compared with right ones.

    They were not if the fit was refused or said that it fell short, or if the right answer changes when the
    data are rounded.
    """

    failures: list[Failure]
    judged: bool


class Outcome(NamedTuple):
    """A fitted model or the error it raised, and the warnings."""

    model: Any
    error: BaseException | None
    warned: list[warnings.WarningMessage]


def outcome_of(setting: Setting, data: Data, rng: Rng) -> Outcome:
    """Fit, and keep what is raised and warned."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            return Outcome(model_of(setting, data, rng), None, warned)
        except Exception as error:
            return Outcome(None, error, warned)


def verdict(setting: Setting, data: Data, outcome: Outcome, rng: Rng) -> Verdict:
    """All that is wrong with an outcome."""
    truth = Truth(setting, data, rng)
    found = [
        Failure("warning of numpy or scipy", f"{w.category.__name__}: {w.message}"[:150])
        for w in outcome.warned
        if issubclass(w.category, RuntimeWarning | np.exceptions.ComplexWarning)
    ]
    if outcome.error is not None:
        return Verdict(found + _refusals(setting, outcome.error, truth), judged=False)
    model = outcome.model
    found += _broken(model, setting)
    if found:
        return Verdict(found, judged=False)
    said = [w for w in outcome.warned if not issubclass(w.category, OverfitWarning)]
    found += [] if said else _scores(model, setting, data)
    if setting.way == "kernel rbf":
        return Verdict(found + ([] if said else _rbf(model, setting, data)), judged=not said)
    if setting.way == "sparse few":
        return Verdict(found + _on_columns(model, setting, data, rng), judged=True)
    if setting.way == "from_covariance" and _singular(truth):
        return Verdict(found, judged=False)
    if not said:
        found += _silent(model, setting, truth)
    found += _overstated(model, truth) + _bounds(model, truth)
    right = truth.error(model.canonical_correlations_) <= DIRECT
    return Verdict(found, judged=not said and (right or not truth.vague))


def _refusals(setting: Setting, error: BaseException, truth: Truth) -> list[Failure]:
    """An error that should not have been raised."""
    text = f"{type(error).__name__}: {error}"[:200]
    if not isinstance(error, ValueError | TypeError):
        return [Failure(f"raises {type(error).__name__}", text)]
    k = setting.params["n_components"]
    if isinstance(error, NothingLeftError) and setting.way == "sparse few":
        return []
    if isinstance(error, ValueError) and any(words in str(error) for words in RANK):
        # Gram matrices, and covariances as floats, tell fewer directions apart than the data do.
        if setting.way == "from_covariance" or setting.way.startswith("kernel"):
            return []
        # Sums over rows have squared what `auto` and `qr` would look for in the rows themselves.
        by_sums = setting.way in ("partial_fit", "merge")
        least = 1e-5 if by_sums or setting.params["solver"] not in ("auto", "qr") else 10 * truth.cut
        ranks = [int(np.sum(s > max(least, 10 * truth.cut))) for s in truth.strengths]
        return (
            [] if k > min(ranks) else [Failure("refuses a problem it could solve", f"{text} (ranks {ranks})")]
        )
    if "batch_size" in setting.params and str(error).startswith("batch_size="):
        return []
    if "oversampling" in setting.params and "use a smaller oversampling" in str(error):
        return []
    return [Failure("raises an error that is not about rank", text)]


def _broken(model: Any, setting: Setting) -> list[Failure]:
    """Attributes that no model may have."""
    k, found = setting.params["n_components"], []
    names = ["canonical_correlations_", "training_correlations_", "x_weights_", "y_weights_", "residuals_"]
    if not setting.way.startswith("kernel"):
        names += [
            "x_loadings_",
            "y_loadings_",
            "x_mean_",
            "y_mean_",
            "x_std_",
            "y_std_",
            "coef_",
            "intercept_",
        ]
    for name in names:
        if not np.all(np.isfinite(getattr(model, name))):
            found.append(Failure("NaN or infinity", name))
    if np.any(np.isinf(model.error_bounds_)):
        found.append(Failure("NaN or infinity", "error_bounds_"))
    for name in names[:2]:
        rho = getattr(model, name)
        if rho.shape != (k,):
            found.append(Failure("shape", f"{name} {rho.shape}, k={k}"))
        elif np.any(rho < 0) or np.any(rho > 1):
            found.append(Failure("outside of [0, 1]", f"{name} {rho}"))
    if np.any(np.diff(model.canonical_correlations_) > 1e-12):
        found.append(Failure("not sorted", f"{model.canonical_correlations_}"))
    return found


def _scores(model: Any, setting: Setting, data: Data) -> list[Failure]:
    """Correlations of the training rows' scores that are not those reported."""
    if setting.way.startswith("kernel"):
        return []
    sides, noise, center = [], 0.0, bool(setting.params.get("center", True))
    for Z, W, mean in zip(
        data.dense, (model.x_weights_, model.y_weights_), (model.x_mean_, model.y_mean_), strict=True
    ):
        U = (Z.astype(np.longdouble) - mean) @ W.astype(np.longdouble)
        sides.append(U - U.mean(axis=0) if center else U)
        amplitude = np.sqrt((np.mean(Z**2, axis=0)[:, None] * W.astype(float) ** 2).sum(axis=0).max())
        noise = max(noise, 50 * float(np.finfo(W.dtype).eps) * amplitude)
    U, V = sides
    norms = np.sqrt((U**2).sum(axis=0) * (V**2).sum(axis=0))
    rho = (U * V).sum(axis=0) / np.where(norms > 0, norms, 1)
    off = float(np.max(np.abs(rho - model.training_correlations_)))
    found = []
    # Statistics of columns alone cannot be more precise than their squares.
    noise = noise if setting.way != "from_covariance" else 0.1 * np.sqrt(noise)
    allowed = noise + (ITERATIVE if registry.is_iterative(model.solver_) else DIRECT)
    if off > allowed:
        found.append(
            Failure(
                "scores of the training rows are not correlated as said",
                f"{rho} said {model.training_correlations_}",
            )
        )
    if setting.params["ridge"] == 0 and not setting.way.startswith("sparse"):
        off = float(np.max(np.abs(model.canonical_correlations_ - model.training_correlations_)))
        if off > allowed:
            said = f"{model.canonical_correlations_} and {model.training_correlations_}"
            found.append(Failure("canonical and training correlations differ without a ridge", said))
    return found


def _silent(model: Any, setting: Setting, truth: Truth) -> list[Failure]:
    """Correlations that are off, with no warning."""
    rho = model.canonical_correlations_
    right = truth.correlations.astype(np.float64)
    iterative = registry.is_iterative(model.solver_)
    allowed = DIRECT
    if iterative:
        allowed = max(ITERATIVE, 3 * setting.params.get("tol", 1e-4) * float(right[: len(rho)].sum()))
    off = truth.error(rho)
    if off <= allowed or truth.vague:
        return []
    said = f"off by {off:.1e}: {rho} for {right[: len(rho)]}"
    return [Failure(f"silent error ({'iterative' if iterative else 'direct'})", said)]


def _overstated(model: Any, truth: Truth) -> list[Failure]:
    """More correlation than there is, by an iterative solver, warning or not."""
    if not registry.is_iterative(model.solver_):
        return []
    rho, right = model.canonical_correlations_, truth.correlations.astype(np.float64)
    more = float(rho.sum() - right[: len(rho)].sum())
    single = 1e-4 if truth.data.single else 0.0
    if more <= DIRECT * len(rho) + single or truth.error(rho) <= DIRECT + single or truth.vague:
        return []
    return [Failure("more correlation than there is", f"{rho} for {right[: len(rho)]}")]


def _bounds(model: Any, truth: Truth) -> list[Failure]:
    """Error bounds that do not hold."""
    found = []
    for rho, bound in zip(model.canonical_correlations_, model.error_bounds_, strict=True):
        if np.isnan(bound):
            continue
        right = truth.correlations
        off = float(min(abs(c - type(c)(float(rho))) for c in right)) if len(right) else 0.0
        # Half a unit in the last place is the rounding of the value itself.
        if off <= bound + 1.2e-16 or truth.nearest(float(rho)) <= bound + 1.2e-16:
            continue
        size = "by rounding" if off < 1e-12 else "below 1e-6" if off < 1e-6 else "grossly"
        found.append(
            Failure(
                f"error bound does not hold, {size}",
                f"{rho!r} off by {off:.2e}, bound {bound:.2e} ({model.solver_})",
            )
        )
    return found[:1]


def _on_columns(model: Any, setting: Setting, data: Data, rng: Rng) -> list[Failure]:
    """Sparse components: no more correlation than their own columns have."""
    X, Y = data.dense
    used = [np.any(W != 0, axis=1) for W in (model.x_weights_, model.y_weights_)]
    if not all(map(np.any, used)):
        return []
    ridge = setting.params["ridge"]
    few = data._replace(dense=(X[:, used[0]], Y[:, used[1]]))
    found = []
    for side, most in zip(used, setting.params["n_nonzero"], strict=True):
        if np.sum(side) > most:
            found.append(Failure("more columns than asked for", f"{np.sum(side)} for {most}"))
    truth = Truth(setting._replace(params=setting.params | {"ridge": ridge}), few, rng)
    return found + _overstated(model, truth)


def _singular(truth: Truth) -> bool:
    """True if covariances given as floats have directions at the level of their rounding."""
    if not all(len(side.live) for side in truth.exact.sides):
        return True
    S = truth.exact
    C = np.block([[S.sides[0].C, S.Cxy], [S.Cxy.T, S.sides[1].C]]).astype(np.float64)
    return bool(np.linalg.eigvalsh(C)[0] < 1e-9)


def _rbf(model: Any, setting: Setting, data: Data) -> list[Failure]:
    """Kernel CCA by the textbook, in double precision: the ridge is large enough for that."""
    shrunk = []
    for Z, gamma, ridge in zip(data.dense, model.gamma_, model.ridge_, strict=True):
        # Differences are exact where squares of large values are not.
        K = np.exp(-gamma * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
        K = K - K.mean(axis=0)
        K = K - K.mean(axis=1)[:, None]
        E, U = np.linalg.eigh(K)
        E = np.maximum(E, 0)
        shrunk.append(U * np.sqrt(E / (E + len(K) * ridge)) @ U.T)
    right = np.linalg.svd(shrunk[0] @ shrunk[1])[1][: setting.params["n_components"]]
    off = float(np.max(np.abs(right - model.canonical_correlations_)))
    iterative = registry.is_iterative(model.solver_)
    allowed = (
        max(ITERATIVE, 3 * setting.params.get("tol", 1e-4) * float(right.sum())) if iterative else DIRECT
    )
    if off <= allowed:
        return []
    said = f"off by {off:.1e}: {model.canonical_correlations_} for {right}"
    return [Failure(f"silent error ({'iterative' if iterative else 'direct'})", said)]


def is_about_convergence(warned: list[warnings.WarningMessage]) -> bool:
    """True if a run said that it fell short."""
    return any(issubclass(w.category, ConvergenceWarning) for w in warned)
