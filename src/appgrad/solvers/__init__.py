"""Solvers: one file or folder for each algorithm."""
