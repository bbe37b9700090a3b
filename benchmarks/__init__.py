"""Measurements behind the claims of the documentation: `python -m benchmarks` lists them."""
