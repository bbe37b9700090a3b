"""The Dask back end: the only folder that imports Dask, imported only when Dask is used."""

from .client import DaskCluster, connected
from .collections import cluster_views, columns_of, lazily, require_same_ends

__all__ = ["DaskCluster", "cluster_views", "columns_of", "connected", "lazily", "require_same_ends"]
