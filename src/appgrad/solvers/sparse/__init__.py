"""Sparse CCA: components of few columns."""
