"""Rows on the workers of a cluster."""
