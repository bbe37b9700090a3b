"""Figures of models: `appgrad.plots` by its public name."""

from .reporting.biplot import biplot
from .reporting.plots import convergence, loadings, scores, scree

__all__ = ["biplot", "convergence", "loadings", "scores", "scree"]
