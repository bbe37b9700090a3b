"""Random settings of a fit: the estimator, the solver, its options, and the way rows come."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from appgrad import CCA, KernelCCA, SparseCCA
from appgrad.solvers import registry

from .problems import Data, Rng

WAYS = {
    "fit": 60,
    "partial_fit": 5,
    "merge": 3,
    "from_covariance": 4,
    "kernel linear": 10,
    "kernel rbf": 5,
    "sparse all": 4,
    "sparse few": 4,
}


class Setting(NamedTuple):
    """How a problem is solved: the way, the parameters of the estimator."""

    way: str
    params: dict[str, Any]

    def __str__(self) -> str:
        shown = " ".join(f"{name}={value!r}" for name, value in self.params.items() if name != "random_state")
        return f"{self.way}: {shown}".replace("np.float64", "")


def setting(rng: Rng, data: Data) -> Setting:
    """A random setting for these data."""
    weights = np.array(list(WAYS.values()), dtype=float)
    way = str(rng.choice(list(WAYS), p=weights / weights.sum()))
    if way.startswith("kernel") and len(data.dense[0]) > 300:
        way = "fit"
    p, q = data.dense[0].shape[1], data.dense[1].shape[1]
    most = max(1, min(p, q, len(data.dense[0]) - 1))
    k = int(rng.integers(1, min(most, 5) + 1))
    params: dict[str, Any] = {"n_components": k, "ridge": _ridge(rng, data, way), "random_state": 0}
    if rng.random() < 0.15 and not way.startswith("kernel"):
        params["center"] = False
    if rng.random() < 0.25 and not way.startswith("kernel"):
        params["scale"] = True
    kind = registry.LINEAR
    if way.startswith("kernel"):
        kind = registry.KERNEL
    elif way.startswith("sparse"):
        kind = registry.SPARSE
    names = registry.names(kind)
    if way in ("partial_fit", "merge", "from_covariance"):
        names = registry.streaming(registry.SUMS)
    params["solver"] = str(names[rng.integers(len(names))])
    if registry.is_iterative(params["solver"]):
        _iterative(rng, params, kind)
    if way == "sparse all":
        params |= {"alpha": 0.0}
    if way == "sparse few":
        params |= {"n_nonzero": (int(rng.integers(k, p + 1)), int(rng.integers(k, q + 1)))}
    return Setting(way, params)


def _ridge(rng: Rng, data: Data, way: str) -> Any:
    kind = rng.choice(["auto", "zero", "number", "pair"], p=[0.45, 0.3, 0.15, 0.1])
    if way.startswith("kernel"):
        kind = "number"
    if kind == "auto":
        return "auto"
    if kind == "zero":
        return 0
    sizes = []
    for Z in data.dense:
        size = float(np.median(np.var(Z, axis=0))) or 1.0
        sizes.append(float(f"{size * 10.0 ** rng.uniform(-6 if way == 'kernel rbf' else -12, 1):.3g}"))
    if way == "kernel rbf":
        return float(f"{10.0 ** rng.uniform(-5, 0):.3g}")
    return sizes[0] if kind == "number" and way != "kernel linear" else (sizes[0], sizes[1])


def _iterative(rng: Rng, params: dict[str, Any], kind: str) -> None:
    if rng.random() < 0.3:
        params["tol"] = float(rng.choice([1e-3, 1e-5, 1e-6, 1e-8]))
    if rng.random() < 0.15 and kind != registry.SPARSE:
        params["preconditioner"] = [None, "jacobi", "lowrank"][rng.integers(3)]
    if rng.random() < 0.1 and kind != registry.SPARSE:
        params["oversampling"] = int(rng.integers(0, 8))
    if rng.random() < 0.2 and kind == registry.LINEAR and params["solver"] != registry.MINIBATCHES:
        params["covariance"] = "dense"
    if params["solver"] == registry.MINIBATCHES and rng.random() < 0.3:
        params["batch_size"] = int(rng.integers(10, 400))


def model_of(setting: Setting, data: Data, rng: Rng) -> Any:
    """The estimator, fitted to the data in the way of the setting."""
    way, params, (X, Y) = setting.way, setting.params, data[:2]
    if way == "fit":
        return CCA(**params).fit(X, Y)
    if way.startswith("sparse"):
        return SparseCCA(**params).fit(X, Y)
    if way == "kernel linear":
        return KernelCCA(kernel="linear", **params).fit(X, Y)
    if way == "kernel rbf":
        return KernelCCA(**params).fit(X, Y)
    if way == "from_covariance":
        return _from_covariance(params, data)
    X, Y = (Z.tocsr() if hasattr(Z, "tocsr") else Z for Z in (X, Y))
    cuts = np.sort(rng.integers(0, X.shape[0] + 1, int(rng.integers(1, 5))))
    parts = [rows for rows in np.split(np.arange(X.shape[0]), cuts) if len(rows)]
    models = []
    for i, rows in enumerate(parts):
        if way == "merge" or i == 0:
            models.append(CCA(**params))
        models[-1].partial_fit(X[rows], Y[rows])
    for other in models[1:]:
        models[0].merge(other)
    _ = models[0].canonical_correlations_
    return models[0]


def covariances(data: Data, center: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sx, Sy and Sxy in double precision, as a user would compute them."""
    X, Y = data.dense
    if center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return X.T @ X / len(X), Y.T @ Y / len(X), X.T @ Y / len(X)


def _from_covariance(params: dict[str, Any], data: Data) -> Any:
    Sx, Sy, Sxy = covariances(data, params.get("center", True))
    params = {name: value for name, value in params.items() if name != "random_state"}
    model = CCA.from_covariance(len(data.dense[0]), Sx, Sy, Sxy, **params)
    _ = model.canonical_correlations_
    return model
