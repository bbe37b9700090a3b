"""Dask arrays and data frames as chunks of rows."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pickle import PicklingError
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from cloudpickle import dumps
from dask.core import get_dependencies
from distributed import (
    Client,
    Future,
)

from ....machine.arrays import Array
from ...inputs import as_column, as_matrix, feature_names, is_dask
from ...row_labels import different_labels, labels_of
from ..chunks import Chunk
from ..protocol import Here, Source
from ..views import ClusterViews
from .client import DaskCluster, active_client

REPARTITION = "use partitions of at most {0} rows, as {1}.repartition(npartitions=...) gives"


def cluster_views(X: Any, y: Any, min_rows: int = 2) -> ClusterViews:
    """Views on arrays or data frames of Dask, on the active client; without one, in this process."""
    client = active_client()
    both = is_dask(X) and is_dask(y)
    known = [{} if is_dask(data) else _known_of(data) for data in (X, y)]
    X, y = _collection(X, y, "X"), _collection(y, X, "y")
    x, y = (_with_own_chunks(client, _optimized(as_dask_column(data))) for data in (X, y))
    _warn_of_columns(x, y)
    sx, sy = (source._replace(**facts) for source, facts in zip(_sources(client, x, y), known, strict=True))
    views = ClusterViews(Here() if client is None else DaskCluster(client), sx, sy, min_rows)
    if both:
        _warn_of_rows(views)
    return views


def require_same_ends(X: Any, y: Any) -> None:
    """Raise if the first or last labels of two data frames differ, where Dask knows them: nothing is read."""
    ends = []
    for data in (X, y):
        if not getattr(data, "known_divisions", False):
            return
        ends.append((data.divisions[0], data.divisions[-1]))
    # Labels that begin with 0 may count rows.
    if ends[0] != ends[1] and not any(type(first) is not str and first == 0 for first, _ in ends):
        (a, b), (c, d) = ends
        raise ValueError(different_labels(f"from {a!r} to {b!r} in X, from {c!r} to {d!r} in y"))


def _known_of(data: Any) -> dict[str, Any]:
    """Facts of a view in memory that its chunks do not have: names of columns, labels of rows."""
    found = {"names": feature_names(data), "labels": labels_of(data)}
    return {name: fact for name, fact in found.items() if fact is not None}


def columns_of(data: Any) -> tuple[int, Array | None]:
    """Number of columns of Dask data, and their names if it is a data frame that has names."""
    columns = getattr(data, "columns", None)
    if columns is None:
        return data.shape[1] if data.ndim == 2 else 1, None
    return len(columns), feature_names(data._meta)


def lazily(data: Any, f: Callable[..., Array], model: Any, columns: int) -> da.Array:
    """A lazy Dask array of f(chunk, model=model) for each chunk of rows."""
    x = as_dask_column(data.to_dask_array() if hasattr(data, "to_dask_array") else data)
    if x.numblocks[1] > 1:
        x = x.rechunk({1: -1})
    dtype = np.float32 if x.dtype.kind == "f" and x.dtype.itemsize <= 4 else np.float64
    # The model is a task of its own: it goes to each worker once, not with every chunk.
    shape = {"meta": np.empty((0, 0), dtype), "chunks": (x.chunks[0], (columns,))}
    return x.map_blocks(f, model=dask.delayed(model, pure=False), dtype=dtype, **shape)


def as_dask_column(data: Any) -> Any:
    """One-dimensional Dask data as one column."""
    if getattr(data, "ndim", 2) != 1:
        return data
    return data[:, None] if isinstance(data, da.Array) else data.to_frame()


class Graph:
    """The part of a Dask graph that makes one chunk; column chunks are put side by side."""

    def __init__(self, graph: dict[Any, Any], keys: list[Any]) -> None:
        self.graph, self.keys = graph, keys

    def __call__(self, values: dict[Any, Any] | None = None) -> Any:
        """The rows of the chunk; `values` are parts of it that exist already."""
        return _joined(_computed({**self.graph, **(values or {})}, self.keys))


def both_of(x: Graph, y: Graph) -> tuple[Any, Any]:
    """Chunks of both views that come from the same data: what they share is computed once."""
    found = _computed({**x.graph, **y.graph}, [*x.keys, *y.keys])
    return _joined(found[: len(x.keys)]), _joined(found[len(x.keys) :])


def _computed(graph: dict[Any, Any], keys: list[Any]) -> Sequence[Any]:
    """The values of keys, computed in this process; an error names the files it may be about."""
    try:
        found: Sequence[Any] = dask.get(graph, keys)
        return found
    except MemoryError:
        raise
    except Exception as error:
        files = [file for file in _files_named(graph) if os.path.basename(file) not in str(error)]
        if files:
            raise ValueError(f"{error} (in {', '.join(files)})") from error
        raise


def _joined(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    ms = [as_matrix(part, "a chunk") for part in parts]
    return sp.hstack(ms, format="csr") if any(map(sp.issparse, ms)) else np.hstack(ms)


def _sources(client: Client | None, x: Any, y: Any) -> list[Source]:
    """Both collections as chunks."""
    graphs, futures = zip(*(_graphs(client, data) for data in (x, y)), strict=True)
    rows, found = [_known_rows(data) for data in (x, y)], []
    for view, data in enumerate((x, y)):
        chunks = []
        for i, (graph, needs) in enumerate(graphs[view]):
            chunk = Chunk(graph, f"chunk {i} of {'Xy'[view]}", rows[view][i], needs)
            if rows[0] == rows[1]:
                (a, needs_a), (b, needs_b) = graphs[0][i], graphs[1][i]
                if not (needs_a or needs_b or a.graph.keys().isdisjoint(b.graph)):
                    chunk = chunk._replace(pair=(f"{a.keys[0]}", partial(both_of, a, b)))
            chunks.append(chunk)
        alone = all(
            type(task).__name__ == "Alias" for graph, _ in graphs[view] for task in graph.graph.values()
        )
        source = Source(
            tuple(chunks), "Xy"[view], futures=futures[view], persisted=bool(futures[view]) and alone
        )
        if not isinstance(data, da.Array):
            source = source._replace(names=feature_names(data._meta), smaller=REPARTITION)
        elif data.dtype.kind in "biuf":
            dense = isinstance(data._meta, np.ndarray)
            row_bytes = float(data.dtype.itemsize * data.shape[1]) if dense else 0.0
            source = source._replace(dtype=data.dtype, row_bytes=row_bytes)
        found.append(source)
    return found


# Owner of keys that more than one chunk needs.
SHARED = -1


def _graphs(client: Client | None, data: Any) -> tuple[list[tuple[Graph, tuple[Any, ...]]], dict[Any, Any]]:
    """The graph of each chunk with the keys of values it takes from elsewhere, and all these values.

    They are futures, and values that several chunks need, such as a mean of all rows, computed once.
    """
    whole = dict(data.__dask_graph__())
    outputs = [keys if isinstance(keys, list) else [keys] for keys in data.__dask_keys__()]
    owners: dict[Any, int] = {}
    below: dict[Any, Any] = {}
    waiting = [(key, i) for i, keys in enumerate(outputs) for key in keys]
    while waiting:
        key, owner = waiting.pop()
        if owners.get(key, owner) != owner:
            owner = SHARED
        if owners.get(key) == owner:
            continue
        owners[key] = owner
        if key not in below:
            below[key] = () if isinstance(whole[key], Future) else get_dependencies(whole, key)
        waiting.extend((other, owner) for other in below[key])
    own: list[dict[Any, Any]] = [{} for _ in outputs]
    needs: list[dict[Any, None]] = [{} for _ in outputs]
    for key, owner in owners.items():
        if owner == SHARED:
            continue
        if isinstance(whole[key], Future):
            needs[owner][key] = None
        else:
            own[owner][key] = whole[key]
            needs[owner] |= {other: None for other in below[key] if owners[other] == SHARED}
    for i, keys in enumerate(outputs):
        needs[i] |= {key: None for key in keys if owners[key] == SHARED}
    wanted = list(dict.fromkeys(key for keys in needs for key in keys))
    values = {key: whole[key] for key in wanted if isinstance(whole[key], Future)}
    rest = [key for key in wanted if key not in values]
    if rest:
        get = dask.get if client is None else partial(client.get, sync=False)
        values |= dict(zip(rest, get(whole, rest), strict=True))
    return [(Graph(g, k), tuple(n)) for g, k, n in zip(own, outputs, needs, strict=True)], values


def _known_rows(data: Any) -> list[int | None]:
    if not isinstance(data, da.Array):
        return [None] * data.npartitions
    return [None if np.isnan(rows) else int(rows) for rows in data.chunks[0]]


def _collection(data: Any, other: Any, label: str) -> Any:
    """A Dask collection as it is; anything else in chunks like those of the other view."""
    if not is_dask(data):
        m = as_matrix(as_column(data), label)
        alike = isinstance(other, da.Array) and other.shape[0] == m.shape[0]
        rows = other.chunks[0] if alike else [m.shape[0]]
        ends = np.cumsum([0, *rows]).astype(int)
        # Cut here: Dask would send the whole of a sparse matrix along with every chunk of it.
        parts = [m[a:b] for a, b in pairwise(ends)]
        return da.concatenate([da.from_array(part, chunks=part.shape, asarray=False) for part in parts])
    if isinstance(data, da.Array):
        if data.ndim not in (1, 2):
            raise ValueError(f"{label} is an array of {data.ndim} dimensions: a view is rows x columns")
        if data.dtype.kind not in "biufO":
            raise TypeError(f"{label} has dtype {data.dtype}: CCA needs real numbers")
    elif not type(data).__module__.startswith("dask.dataframe"):
        raise TypeError(f"{label} is a {type(data).__name__}: use a Dask array or a Dask data frame")
    return data


def _optimized(data: Any) -> Any:
    """A data frame, optimised to read no more than it needs; an array as it is.

    One at a time: `dask.optimize` takes two data frames for each other (2026.8). Arrays need no optimising: a
    chunk is computed in one go, and the tasks it shares with a chunk of the other view can be recognised.
    """
    return data if isinstance(data, da.Array) else data.optimize()


def _with_own_chunks(client: Client | None, data: Any) -> Any:
    """The collection if its chunks can be computed one by one; otherwise it is computed on the cluster."""
    if client is None:
        return data
    graph = dict(data.__dask_graph__())
    for task in graph.values():
        # Tasks that move rows between workers, as shuffles do, come from the package distributed; and some
        # tasks have futures among their arguments, which only Dask can find.
        module = getattr(getattr(task, "func", None), "__module__", None) or ""
        if module.startswith("distributed.") or not graph.keys() >= getattr(task, "dependencies", set()):
            return client.persist(data)
    return data


def _warn_of_columns(x: Any, y: Any) -> None:
    """Warn of the cost of chunks that do not have all columns."""
    for data, label in ((x, "X"), (y, "y")):
        if isinstance(data, da.Array) and data.numblocks[1] > 1:
            warnings.warn(
                f"the columns of {label} are split into {data.numblocks[1]} chunks: rechunked wherever they "
                f"are read, which takes a copy of them; {label}.rechunk({{1: -1}}) avoids it",
                UserWarning,
                stacklevel=5,
            )


def _warn_of_rows(views: ClusterViews) -> None:
    """Warn of the cost of chunks that do not have the same rows in both views."""
    x, y = views.starts
    if not np.array_equal(x, y):
        warnings.warn(
            f"the rows of X and y are split at different places, into {len(x) - 1} and {len(y) - 1} chunks: "
            "rechunked where they are read, and those at the edges of a worker's share read twice; "
            "y.rechunk((X.chunks[0], -1)) avoids it",
            UserWarning,
            stacklevel=5,
        )


def _files_named(graph: dict[Any, Any]) -> list[str]:
    """Files whose paths occur in pickled tasks of a graph; a byte before a path may not belong to it."""
    found = set()
    # Tasks only: data may be large, and name no files.
    tasks = [task for task in graph.values() if hasattr(task, "func")]
    try:
        texts = re.findall(rb"[\w.=\-/@ ]{4,}", dumps(tasks))
    except (TypeError, ValueError, PicklingError):
        return []
    for path in map(bytes.decode, texts):
        starts = {0, 1, *(match.start() for match in re.finditer("/", path))}
        found |= {path[start:] for start in starts if "." in path[start:] and os.path.isfile(path[start:])}
    return sorted(path for path in found if not path.endswith(".py"))
