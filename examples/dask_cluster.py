"""CCA of sparse rows on a Dask cluster: what changes is where the rows are, nothing else.

    python examples/dask_cluster.py [--scheduler tcp://host:8786] [--rows 40000]

Without a scheduler, two worker processes are started on this machine. Each worker makes its own rows; on your
cluster they would be read from files that all workers see.
"""

from __future__ import annotations

import argparse

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster

import appgrad

COLUMNS, TOPICS, WORDS = 3000, 5, 12


def documents(number: int, rows: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Rows of one chunk: texts in two languages, whose words come from the same topics."""
    vocabulary = np.random.default_rng(0).integers(0, COLUMNS, (2, TOPICS, 40))
    rng = np.random.default_rng(1 + number)
    topic = rng.integers(0, TOPICS, rows)
    found = []
    for words in vocabulary:
        own = words[topic[:, None], rng.integers(0, 40, (rows, WORDS // 2))]
        other = rng.integers(0, COLUMNS, (rows, WORDS // 2))
        indices = np.hstack([own, other]).ravel()
        m = sp.csr_array(
            (np.ones(len(indices)), indices, np.arange(0, len(indices) + 1, WORDS)), (rows, COLUMNS)
        )
        m.sum_duplicates()
        found.append(m)
    return found[0], found[1]


def views(rows: int, chunks: int) -> tuple[da.Array, da.Array]:
    """Both languages as Dask arrays with sparse chunks."""
    size, both = rows // chunks, dask.delayed(documents, nout=2)
    parts = [both(number, size) for number in range(chunks)]
    x, y = (
        da.concatenate(
            [
                da.from_delayed(part[view], (size, COLUMNS), meta=sp.csr_array((0, 0)), dtype=float)
                for part in parts
            ]
        )
        for view in (0, 1)
    )
    return x, y


def main() -> None:
    """Fit, look at new rows, and compare with one process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scheduler", help="address of a Dask scheduler")
    parser.add_argument("--rows", type=int, default=40_000)
    options = parser.parse_args()
    cluster = options.scheduler or LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    with Client(cluster):
        x, y = views(options.rows, 16)
        model = appgrad.CCA(n_components=4, solver="lobpcg", ridge=1e-3, random_state=0).fit(x, y)
        print(f"solver {model.solver_}, {model.n_passes_:.0f} passes over {model.n_samples_} rows")
        print("correlations", model.canonical_correlations_.round(4))

        # Lazy: nothing is computed until it is asked for, and then where the rows are.
        U, V = model.transform(x, y)
        print("scores", U)
        print(
            "on the first chunk", appgrad.correlations(U.blocks[0].compute(), V.blocks[0].compute()).round(2)
        )

        # Rows that the fit has not seen.
        print("score of new rows", round(model.score(*documents(1000, 5000)), 3))

        X, Y = (
            sp.vstack(side)
            for side in zip(*(documents(i, options.rows // 16) for i in range(16)), strict=True)
        )
        alone = appgrad.CCA(n_components=4, solver="lobpcg", ridge=1e-3, random_state=0).fit(X, Y)
        apart = np.abs(alone.canonical_correlations_ - model.canonical_correlations_).max()
        print("one process finds the same:", bool(apart < 1e-6))
    if not options.scheduler:
        cluster.close()


if __name__ == "__main__":
    main()
