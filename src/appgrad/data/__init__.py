"""Rows delivered in blocks, wherever they are stored: arrays, kernels, files, clusters."""
