"""The authors' MNIST curves: PCC of both AppGrads at their settings, beside the published points.

    APPGRAD_DATA=... python -m benchmarks paper_curves [--record FILE]

Pixels / 255, not centred, k = 20, ridge 0.005, constant step 0.05, nothing beyond the paper: no
preconditioner, no oversampling, no averaging. Differences are in points of a percent.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from appgrad import CCA
from appgrad.covariance.linalg import captured
from appgrad.covariance.moments import moments
from appgrad.covariance.rows import RowCovariance
from appgrad.covariance.units import units
from appgrad.data.arrays import ArrayViews

from .data_sets import folder, mnist
from .measure import save

PAPER = {
    "center": False,
    "ridge": 0.005,
    "step_size": 0.05,
    "preconditioner": None,
    "oversampling": 0,
    "tol": 0,
}


def curve(X, Y, cov, reference, iterations, seed, **params):
    """PCC in percent after each number of iterations, on the rows of the fit."""
    found = {}

    def callback(progress):
        if progress.iteration in iterations:
            solution = progress.solution()
            grams = cov.grams(solution.x_weights, solution.y_weights)
            found[progress.iteration] = 100 * captured(*grams, 20)[2] / reference

    model = CCA(20, max_iter=max(iterations), callback=callback, random_state=seed, **PAPER, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, Y)
    return [found[t] for t in iterations]


def main():
    """Run, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    published = json.loads((folder() / "published_curves.json").read_text())
    X, Y = mnist()
    m = moments(views := ArrayViews(X, Y), center=False)
    cov = RowCovariance(views, m, units(m, views.dtype, ridge=0.0))
    exact = CCA(20, center=False, ridge=0.005).fit(X, Y)
    reference = captured(*cov.grams(exact.x_weights_, exact.y_weights_), 20)[2]
    record = {}
    runs = {
        "appgrad": ("appgrad", {"solver": "appgrad", "covariance": "dense"}),
        "stochastic, normaliser=200": ("stochastic_appgrad", {"solver": "stochastic", "normaliser": 200}),
        'stochastic, normaliser="batch"': (
            "stochastic_appgrad",
            {"solver": "stochastic", "normaliser": "batch"},
        ),
    }
    for name, (key, params) in runs.items():
        if params["solver"] == "stochastic":
            params = params | {"batch_size": published[key]["minibatch"]}
        iterations, points = published[key]["iterations"], published[key]["pcc_in_sample"]
        curves = [curve(X, Y, cov, reference, iterations, seed, **params) for seed in range(3)]
        ours = np.mean(curves, axis=0)
        record[name] = {"iterations": iterations, "published": points, "ours": ours.round(2).tolist()}
        print(name)
        for t, theirs, here in zip(iterations, points, ours, strict=True):
            print(f"  {t:5} iterations: published {theirs:5.1f}, here {here:5.1f} ({here - theirs:+.1f})")
    if args.record:
        save(args.record, record)
