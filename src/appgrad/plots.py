"""Figures of models: `appgrad.plots` by its public name."""

from .reporting.plots import biplot, convergence, loadings, scores, scree

__all__ = ["biplot", "convergence", "loadings", "scores", "scree"]
