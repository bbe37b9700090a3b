"""`python -m benchmarks NAME [options]` runs a benchmark; without a name, they are listed."""

from __future__ import annotations

import sys
from importlib import import_module

# Modules of this folder, and what each measures.
BENCHMARKS = {
    "exact_mnist": "time and memory of exact CCA on MNIST, against other packages and the bare product",
    "paper_curves": "correlation captured by both AppGrads, beside the paper's points",
    "peak_memory": "peak memory of AppGrad and stochastic AppGrad, for growing p and n",
    "stopping": "does a run that ends by itself hold what its tolerance promises",
    "joint_head": "time to parts of the correlation, in units of one pass, beside another version",
    "lobpcg_time": "time of LOBPCG on real data, in units of one pass",
    "cost_growth": "growth of time and memory, one variable at a time; exact against LOBPCG",
    "sparse_comparison": "correlation captured on sparse data, beside heuristics and other packages",
    "one_pass": "correlation captured in one pass over batches of 200 rows",
    "larger_than_memory": "time and memory of fits to files larger than memory",
    "kernel_cca": "correlations, time and memory of kernel CCA on MNIST",
    "sparse_cca": "planted columns found by sparse CCA; starts and placements; a path on texts",
    "dask_cluster": "time, memory and traffic of Dask workers, against one process and a model of their cost",
    "step_sizes": 'correlation captured with step_size="auto", over the best of twenty constant steps',
    "fingerprint": "cost of the fingerprint of all rows, over that of a pass",
    "effective_rows": "which number tells that a correlation is lost on other rows, and its cost",
    "small_fits": "time of small fits, alone and beside busy processes, over that with all threads of BLAS",
    "import_time": "time of `from appgrad import CCA`, over that of scikit-learn's CCA",
    "versions": "time, memory, passes and FLOP of this code, over those of another version of it",
    "inference": "rates, power and coverage of tests and of the noise level, and their cost",
    "walks": "modules and rooms that a few common calls go through, and borders they cross",
}


def main() -> None:
    """Run the benchmark that is named, with the options that follow."""
    name, *options = sys.argv[1:] or [""]
    if name in BENCHMARKS:
        sys.argv = [f"python -m benchmarks {name}", *options]
        import_module(f".{name}", __package__).main()
        return
    print("python -m benchmarks NAME [options] [--record FILE]; NAME --help shows the options\n")
    for known, measured in BENCHMARKS.items():
        print(f"{known:20} {measured}")
    if name not in ("", "-h", "--help"):
        sys.exit(f"\nno benchmark is called {name!r}")


if __name__ == "__main__":
    main()
