"""Rows wherever they live, delivered as blocks: arrays, kernels, files, clusters."""
