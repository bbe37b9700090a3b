"""One file, one algorithm."""
