"""Rows of Dask: the only folder that imports it. It is imported by its users alone."""

from .client import DaskCluster, connected
from .collections import cluster_views, lazily

__all__ = ["DaskCluster", "cluster_views", "connected", "lazily"]
