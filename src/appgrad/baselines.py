"""What the paper compares with: `appgrad.baselines` by its public name."""

from .experiments.baselines import NaiveGradient, NaiveState, dw_cca, heuristic_flops, nw_cca, pca_cca

__all__ = ["NaiveGradient", "NaiveState", "dw_cca", "heuristic_flops", "nw_cca", "pca_cca"]
