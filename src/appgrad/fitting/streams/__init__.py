"""Streams of rows: second moments if these fit into memory, steps of stochastic AppGrad if they do not."""
