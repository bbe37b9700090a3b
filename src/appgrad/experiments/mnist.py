"""MNIST, left against right half: the authors' setting and published points, and digits from few labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from ..datasets.loaders import Folder, Paired, load_mnist
from ..estimators.cca import CCA
from ..machine.arrays import Array
from .curves import (
    LETTER,
    Curve,
    Judge,
    add_curves,
    add_sizes,
    add_solution,
    batch_flops,
    checkpoints,
    minibatch_flops,
    our_curves,
)
from .records import Writer

# Pixels / 255, not centred, the ridge and the step of the authors' code.
SETTING: dict[str, Any] = {"center": False, "ridge": 0.005}
# Read off the figures that the authors published with their MNIST code; cost by the formulas of their axes.
PUBLISHED: dict[str, dict[str, list[float]]] = {
    "AppGrad": {
        "iteration": [20, 100, 200, 500, 800, 1200],
        "in": [72.3, 79.1, 84.0, 90.1, 92.7, 94.9],
        "out": [72.3, 79.2, 84.2, 90.3, 92.8, 95.1],
    },
    "stochastic AppGrad": {
        "iteration": [100, 300, 500, 1000, 3000, 4000],
        "in": [77.5, 85.9, 89.1, 92.9, 97.3, 97.8],
        "out": [77.8, 86.1, 89.2, 93.0, 97.4, 97.9],
    },
}


def curves(quick: bool) -> list[Curve]:
    """The curves to run: the paper's algorithms, ours, and LOBPCG."""
    far, steps, seeds = (120, 1000, 1) if quick else (1200, 4000, 3)
    step = {**LETTER, "step_size": 0.05}
    return [
        Curve(
            "AppGrad",
            {"solver": "appgrad", **step},
            sorted({*checkpoints(far), 20, 100, 200, 500, 800} & {*range(far + 1)}),
            paper=batch_flops,
        ),
        Curve(
            "stochastic AppGrad",
            {"solver": "stochastic", "batch_size": 50, "normaliser": 200, **step},
            sorted({*checkpoints(steps), 100, 300, 500, 1000, 3000} & {*range(steps + 1)}),
            seeds,
            paper=minibatch_flops,
        ),
        *our_curves((30, 300, 15) if quick else (200, 1200, 60), seeds=seeds),
    ]


def run(folder: Folder, writer: Writer, quick: bool) -> Iterator[str]:
    """Write all records; yields a text before each part."""
    data = load_mnist(folder)
    judge = Judge("MNIST", data, 20, center=False)
    add_sizes(writer, judge.name, data)
    yield from add_solution(writer, judge, "exact", {**SETTING, "solver": "exact"})
    yield from add_curves(writer, judge, curves(quick), SETTING)
    costs = {"AppGrad": batch_flops, "stochastic AppGrad": minibatch_flops}
    for name, published in PUBLISHED.items():
        cost = costs[name](60000, 392, 20, 50)
        for t, inside, outside in zip(published["iteration"], published["in"], published["out"], strict=True):
            facts = {"kind": "published", "set": "MNIST", "method": name, "iteration": t}
            writer.declare(facts, pcc_in=inside, pcc_out=outside, paper_flops=t * cost)
    yield from _few_labels(data, writer, quick)


def _few_labels(data: Paired, writer: Writer, quick: bool) -> Iterator[str]:
    """Write how well digits are told from the left half, by features found without labels and a few labels.

    The features: canonical scores of the left half with the right half, each times its correlation (what the
    halves do not share counts less), principal components, the pixels. The classifier is the same for all,
    its penalty chosen by cross-validation among the labelled rows.
    """
    sizes, repeats = ((50, 200), 2) if quick else ((50, 100, 200, 500, 1000), 5)
    for name, k, ridge, made in _features(data, quick):
        facts = {"kind": "labels", "features": name, "k": k, "ridge": ridge}
        draws = [{"labels": size, "seed": seed} for size in sizes for seed in range(repeats)]
        draws = [draw for draw in draws if not writer.found(**facts, **draw)]
        if draws:
            yield (
                f"digits from {name}" + (f", k = {k}" if k else "") + (f", ridge {ridge:g}" if ridge else "")
            )
            features = made()
            for draw in draws:
                writer.add(**facts, **draw, accuracy=_accuracy(data, features, draw["labels"], draw["seed"]))


PENALTIES = np.logspace(-3, 2, 6)


def _accuracy(data: Paired, features: tuple[Array, Array], size: int, seed: int) -> float:
    """Share of test digits told right, from features for training and for testing, and `size` labels."""
    assert data.labels is not None
    train, test = features
    rows = _balanced(data.labels, size, seed)
    model = GridSearchCV(LogisticRegression(max_iter=1000), {"C": PENALTIES}, cv=3)
    model.fit(train[rows], data.labels[rows])
    return float(model.score(test, data.labels_test))


Features = Callable[[], tuple[Array, Array]]


def _features(data: Paired, quick: bool) -> Iterator[tuple[str, int | None, float | None, Features]]:
    """Features of the left half, each with a function that makes them for training and for testing."""
    yield "pixels", None, None, lambda: (data.X, data.X_test)
    for k in (20,) if quick else (20, 50, 100):
        yield "PCA", k, None, partial(_components, data, k)
        for ridge in (0.1, 1.0):
            yield "CCA", k, ridge, partial(_scores, data, k, ridge)


def _components(data: Paired, k: int) -> tuple[Array, Array]:
    pca = PCA(k, random_state=0).fit(data.X)
    return pca.transform(data.X), pca.transform(data.X_test)


def _scores(data: Paired, k: int, ridge: float) -> tuple[Array, Array]:
    model = CCA(k, ridge=ridge).fit(data.X, data.y)
    train, test = (
        np.asarray(model.transform(X)) * model.canonical_correlations_ for X in (data.X, data.X_test)
    )
    return train, test


def _balanced(labels: Array, size: int, seed: int) -> Array:
    """Rows drawn at random, the same number of each class."""
    rng, classes = np.random.default_rng(seed), np.unique(labels)
    return np.concatenate(
        [rng.choice(np.flatnonzero(labels == c), size // len(classes), replace=False) for c in classes]
    )
