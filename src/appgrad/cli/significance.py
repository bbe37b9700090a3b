"""Tests of canonical correlations: `appgrad test`, and `appgrad fit --test`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..data.sources import open_views
from ..data.views import Views
from ..estimators.base import BaseCCA
from ..estimators.model_file import load
from ..fitting.progress import Watch
from ..inference.results import METHODS, CanonicalTest
from ..reporting.rows_shown import labels_of, require_labels
from . import signals
from .progress_bar import progress_line
from .terminal import print_json, say
from .wording import in_options


def show_test(
    model: Path,
    x: str | None,
    y: str | None,
    method: str,
    n_resamples: int,
    groups: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Test a saved model, or the rows of two files, and print the result."""
    if method not in METHODS:
        raise typer.BadParameter(f"{method!r} is not one of {', '.join(METHODS)}", param_hint="--method")
    if (x is None) != (y is None):
        raise typer.BadParameter("give both views, X and Y, or none")
    fitted = load(model)
    views = None if x is None or y is None else open_views(x, y, model=fitted)
    found = canonical_test(fitted, views, method=method, n_resamples=n_resamples, groups=groups, seed=seed)
    if as_json:
        print_json(found.to_dict())
        return
    say(in_options(found.summary()))


def canonical_test(
    model: BaseCCA,
    views: Views | None,
    *,
    method: str = "auto",
    n_resamples: int = 999,
    groups: str | None = None,
    seed: int = 0,
    level: str | None = None,
) -> CanonicalTest:
    """The test of a model, with its progress on stderr; `groups` is a file of groups, a line a row."""
    found: Any = labels_of(groups)
    if views is not None:
        require_labels(found, views.n_samples, str(groups))
    with progress_line(level) as watch:
        return model.test(
            views,
            method=method,
            n_resamples=n_resamples,
            groups=found,
            rng=seed,
            callback=Counter(watch),
        )


class Counter:
    """A callback that shows how many permutations have been done, and the time left."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        watch.begin("test")

    def __call__(self, done: int, asked: int) -> None:
        """Show how many there are by now."""
        signals.raise_lost()
        self.watch.share(done, asked, "permutations")
