"""Stochastic AppGrad: steps on minibatches."""
