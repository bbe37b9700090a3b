"""The demonstration: CCA of the two halves of handwritten digits, as a table and a figure."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from ..estimators.cca import CCA
from ..inference.holdout import HeldOut
from ..machine.arrays import Array
from ..metrics import correlations
from ..reporting.summary import Timing, summary_of
from .terminal import err, print_summary, say


def show_digits(output: Path) -> None:
    """Print correlations between the left and right halves, and save a figure of them to a folder."""
    images = load_digits().images
    train, test = train_test_split(images, test_size=0.3, random_state=0)
    halves = [(m[:, :, :4].reshape(len(m), -1), m[:, :, 4:].reshape(len(m), -1)) for m in (train, test)]
    start = time.perf_counter()
    model = CCA(n_components=8).fit(*halves[0])
    seconds = time.perf_counter() - start
    tested = correlations(*model.transform(*halves[1]))
    say("left against right half of 8 x 8 digits, 32 + 32 pixels")
    held_out = HeldOut(tested, f"{len(test)} rows the fit has not seen")
    print_summary(summary_of(model, held_out=held_out, timing=Timing(seconds, seconds)))
    try:
        import matplotlib

        matplotlib.use("Agg")
        from ..reporting.plots import scree
    except ImportError:
        say("no figure: pip install 'appgrad[plots]'", err)
        return
    output.mkdir(parents=True, exist_ok=True)
    figure = output / "digits.png"
    ax = scree(model.canonical_correlations_, tested)
    ax.set_title("Digits: left half against right half")
    ax.figure.savefig(figure, dpi=150)
    say(f"figure    saved to {figure}")
    _print_what_a_ridge_does(tested, CCA(n_components=8, ridge=0.1).fit(*halves[0]).score(*halves[1]))


def _print_what_a_ridge_does(tested: Array, with_ridge: float) -> None:
    worst = int(np.argmin(tested)) + 1
    say(
        f"note      component {worst} rests on pixels that few images light, and is lost on new rows; with\n"
        f"          CCA(n_components=8, ridge=0.1) the held-out mean is {with_ridge:.3f} instead of "
        f"{tested.mean():.3f}"
    )
