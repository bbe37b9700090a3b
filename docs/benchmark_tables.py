"""Tables of the results page that come from records of benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from appgrad.experiments.records import Record
from result_page import Page


def _speed(page: Page, record: Record) -> None:
    page.say(f"{record['problem']}.")
    rows = []
    for name, r in record["results"].items():
        rest = f" ({r['rows']:,} rows only)" if "rows" in r else ""
        memory = f"{r['memory']['extra'] / r['memory']['data']:.2f}" if "memory" in r else ""
        rows.append((name + rest, f"{r['seconds']:.2f}", f"{r['ratio_to_ours']:.2f}", memory))
    page.table(("method", "seconds", "times ours", "extra memory, times the data"), rows)


def _iterations(page: Page, record: Record) -> None:
    page.say(
        "TCC is computed from the scores of the rows, without the ridge. ptb is a word against the two words on either side. The time to 99 % is told in plain products of the rows with thin matrices, by scipy. Where residuals stalled above the default tolerance, the table says where."
    )
    rows = []
    for name, r in record.items():
        if isinstance(r, dict) and "converged" in r:
            c, early = r["converged"], r["0.99"]
            rows.append(
                (
                    name,
                    early["iterations"],
                    f"{early['units']:.1f}",
                    _ended(c),
                    f"{c['tcc']:.3f}",
                    f"{r['iteration_over_products']:.2f}",
                )
            )
    page.table(
        (
            "data",
            "iterations to 99 %",
            "plain products' time",
            "iterations to the default tolerance",
            "TCC",
            "an iteration over its products",
        ),
        rows,
    )


def _head(page: Page, record: Record) -> None:
    page.say(
        "A unit is one plain pass over the rows, products of both views with 25 columns by scipy. Times are those of whole fits that would end there, medians; the version before it took turns with this one, and was stopped after 60 seconds. The correlation is that of the problem with its ridge."
    )
    rows = []
    for name, r in record.items():
        if isinstance(r, dict) and "new" in r:
            for which, title in (("old", "before"), ("new", "now")):
                if which in r:
                    rows.append((name, title, *_shares(r[which]), f"{r[which]['memory'] / 1e6:.0f} MB"))
    page.table(
        (
            "data",
            "",
            "99 %: iterations, units",
            "99.9 %",
            "99.99 %",
            "default fit: iterations, units",
            "still missing",
            "memory",
        ),
        rows,
    )


def _shares(run: Record) -> tuple[str, ...]:
    """Iterations and units to each share, of the whole fit, and what that missed."""
    found = [
        f"{run[share]['iterations']:.0f}, {run[share]['units']:.1f}" if share in run else "not reached"
        for share in ("0.99", "0.999", "0.9999")
    ]
    fit = run["fit"]
    return *found, f"{fit['iterations']}, {fit['units']:.1f}", f"{max(fit['missing'], 0):.0e}"


def _stopping(page: Page, record: Record) -> None:
    page.say(
        "Default fits with several seeds against references: `exact`, or the best of three runs to a hundredth of the tolerance, one of them with another preconditioner. The most that was missing of the total correlation, and of one component."
    )
    rows, errors = [], []
    for name, r in record.items():
        if isinstance(r, dict) and "fits" in r:
            fits = r["fits"]
            taken = statistics.median(fit["passes"] for fit in fits)
            errors.append(max(taken / r["planned"], r["planned"] / taken))
            rows.append(
                (
                    name,
                    f"{r['rows']:,}",
                    ", ".join(str(fit["iterations"]) for fit in fits),
                    f"{taken:.0f} ({r['planned']:.0f})",
                    f"{max(max(fit['missing'] for fit in fits), 0):.0e}",
                    f"{max(max(fit['worst component'] for fit in fits), 0):.0e}",
                    ("yes" if all(fit["holds"] for fit in fits) else "no")
                    + (", with a warning" if any(fit["warned"] for fit in fits) else ""),
                )
            )
    page.table(
        ("data", "rows", "iterations", "passes (plan)", "total missing", "worst component", "holds"), rows
    )
    page.say(
        f"The passes that `plan` expects, in brackets, are wrong by a factor of {statistics.median(errors):.1f} in the median: it does not know the ridge, nor whether columns coincide."
    )


# The tolerance of the records of `lobpcg_time`, a bound for residuals then.
TOL = 1e-4


def _ended(run: Record) -> str:
    """After how many iterations a run reached the default tolerance, or stalled and where."""
    if run["residual"] <= TOL:
        return str(run["iterations"])
    return f"not reached: stalled after {run['iterations']}, residual {run['residual']:.1e}"


def _onepass(page: Page, record: Record) -> None:
    page.say("Ranges are of three orders of the rows; single numbers are of one.")
    rows = [
        (name, _range(r["stream"]), _range(r["fit"]), r["solver"])
        for name, r in record.items()
        if isinstance(r, dict) and "stream" in r
    ]
    page.table(("data", "stream", "fit, max_passes=1", "solution by"), rows)


def _range(values: list[float]) -> str:
    return f"{values[0]:.3f}" if len(values) == 1 else f"{min(values):.3f} to {max(values):.3f}"


def _heuristics(page: Page, record: Record) -> None:
    page.say(
        'Every other row held out, `lobpcg` to tol=1e-3, sums of the correlations of scores. NW-CCA and DW-CCA go on until they settle. The default ridge, "auto", is for numbers, not against overfitting: where many columns are rare, one that is chosen by held-out rows keeps far more.'
    )
    rows = [
        (name, r["method"], r["ridge"], f"{r['training']:.2f}", f"{r['held_out']:.2f}", f"{r['seconds']:.1f}")
        for name, found in record.items()
        if isinstance(found, dict) and "rows" in found
        for r in found["rows"]
    ]
    page.table(("data", "method", "ridge", "sum of correlations, training", "held out", "seconds"), rows)


def _files(page: Page, record: Record) -> None:
    page.say(
        f"{record['gigabytes']:g} GB of rows; time of the fit over that of reading the files as often. From disk, files were put out of the cache before each pass; cached, reading takes about a tenth of the time, and arithmetic is what counts. stochastic had a minute."
    )
    rows = [
        (name, f"{r['ratio']:.2f}", f"{r['passes']:.1f}", f"{r['memory'] / 1e6:.0f}")
        for name, r in record.items()
        if isinstance(r, dict) and "ratio" in r
    ]
    page.table(("fit", "times reading", "passes", "MB of memory"), rows)


def _kernels(page: Page, record: Record) -> None:
    page.say("Rows alike but for the record differ in the seed of their landmarks.")
    rows = []
    for r in record["runs"]:
        size = f", {r['landmarks']:,} landmarks" if r.get("landmarks") else ""
        size += f", {r['rows']:,} rows" if r.get("rows") else ""
        rows.append((r["model"] + size, f"{r['sum']:.2f}", f"{r['seconds']:.1f}", f"{r['memory_mb']:.0f}"))
    page.table(("model", "sum of 50 correlations, test rows", "seconds", "MB of memory"), rows)


def _sparse(page: Page, record: Record) -> None:
    page.say("Means of five seeds. SparseCCACV chooses the number of columns by held-out rows.")
    rows = [
        (rho, name, f"{r['f1']:.2f}", f"{r['lost']:.4f}", f"{r['seconds']:.1f}")
        for rho, found in record["planted"].items()
        for name, r in found.items()
        if "f1" in r
    ]
    page.table(("correlation", "model", "F1 of the columns", "correlation lost", "seconds"), rows)


def _cluster(page: Page, record: Record) -> None:
    page.say("Processes on one machine: above 1, the cluster takes longer.")
    r, thin = record["paths"], record["paths"]["bytes_per_pass"] / record["paths"]["thin_bytes"]
    page.table(
        ("debian_paths, LOBPCG", ""),
        (
            ("two one-thread workers over one process with two threads", f"{r['ratio']:.2f}"),
            ("MB sent in a pass", f"{r['bytes_per_pass'] / 1e6:.0f}"),
            ("in thin matrices of k columns", f"{thin:.1f}"),
        ),
    )


def _growth(page: Page, record: Record) -> None:
    rows = [
        (name, *(f"{record[name]['exponents'][what]:.2f}" for what in ("time", "memory")))
        for name in ("n", "p", "k", "entries")
        if name in record
    ]
    page.say(
        "Exponents: time and memory grow like this power of one of rows, columns, components and stored entries."
    )
    page.table(("variable", "time", "memory"), rows)


def _curves(page: Page, record: Record) -> None:
    rows = [
        (name, t, theirs, f"{here:.1f}")
        for name, r in record.items()
        if isinstance(r, dict) and "published" in r
        for t, theirs, here in zip(r["iterations"], r["published"], r["ours"], strict=True)
    ]
    page.say("As the experiment above, with a choice of normalisers, and three seeds for AppGrad as well.")
    page.table(("method", "iterations", "published PCC", "here, mean of three seeds"), rows)


def _memory(page: Page, record: Record) -> None:
    rows = [
        (
            name,
            ", ".join(f"{mb:g}" for mb in r["MB at n = 1000"]),
            ", ".join(f"{mb:g}" for mb in r["MB at p = 1000"]),
        )
        for name, r in record.items()
        if isinstance(r, dict) and "MB at n = 1000" in r
    ]
    page.say("Peak beyond the data, for 2,000, 4,000, 8,000 and 16,000 columns a view, or as many rows.")
    page.table(("solver", "MB by columns, 1,000 rows", "MB by rows, 1,000 columns"), rows)


def _steps(page: Page, record: Record) -> None:
    groups: dict[tuple[str, str, str], list[float]] = {}
    for r in record["rows"]:
        key = r["set"], r["solver"], str(r["preconditioner"])
        groups.setdefault(key, []).append(r["ratio"])
    page.say(
        "Correlation captured with the step that is chosen by itself, over that with the best constant one."
    )
    rows = [(*key, f"{min(ratios):.3f}", f"{max(ratios):.3f}") for key, ratios in groups.items()]
    page.table(("data", "solver", "preconditioner", "least", "most"), rows)


def _fingerprint(page: Page, record: Record) -> None:
    rows = [
        (
            name,
            *(f"{100 * r['share'][what]:.1f} %" for what in ("means and variances", "pass", "run")),
            f"{r['nanoseconds a number']['fingerprint']:.1f}",
        )
        for name, r in record.items()
        if isinstance(r, dict) and "share" in r
    ]
    page.say(
        "A run with a checkpoint hashes every row once. Processor time of that over the time of a first pass for "
        "means and variances, of a pass of the iterations (20 columns), and of a run of LOBPCG (10 components)."
    )
    page.table(("data", "of a first pass", "of a pass", "of a run", "ns a number"), rows)


def _small(page: Page, record: Record) -> None:
    page.say(
        f"Operations of few multiplications run on one thread of BLAS; times over that are those with all {record['threads']} threads, in turns in one process. Beside {record['busy']} busy processes, threads wait for each other."
    )
    rows = []
    for r in record["rows"]:
        cells = [
            (f"{1e3 * r[how]['one']:.1f}", f"{r[how]['all'] / r[how]['one']:.1f}")
            for how in ("alone", "busy")
        ]
        rows.append((r["name"], *cells[0], *cells[1]))
    page.table(
        ("work", "ms, alone", "all threads over that", "ms, beside others", "all threads over that"), rows
    )


def _inference(page: Page, record: Record) -> None:
    names = ("Wilks' lambda", "Pillai's trace", "Hotelling-Lawley trace", "Roy's greatest root", "Bartlett")

    def shown(kind: str) -> list[tuple[str, ...]]:
        found = []
        for r in record["records"]:
            if r["what"] == kind:
                steps = r.get("permutation", {})
                cells = [*(r["rejected"].get(name) for name in names), steps.get("step 1"), r.get("held out")]
                cells += [r["rejected"].get("Wilks, step 2"), steps.get("step 2")] if kind == "power" else []
                texts = ["" if c is None else f"{100 * c:.1f}" for c in cells]
                rho = [f"{r['rho']:.2f}"] if kind == "power" else []
                found.append((f"{r['n']}", f"{r['p']} + {r['q']}", *rho, *texts))
        return found

    tests = ("Wilks", "Pillai", "Hotelling-Lawley", "Roy", "Bartlett", "permutation", "held-out rows")
    page.say(
        "Share of 1000 data sets of pure noise in which each test rejects at 5 %, in percent (permutations: 199; held-out rows: 250 data sets, 99 permutations). Bartlett's chi-square is not for many columns."
    )
    page.table(("rows", "columns", *tests), shown("rate"))
    page.say(
        "The same with one planted pair of correlation rho (power), and of the second step, where nothing is left to find (its size)."
    )
    page.table(("rows", "columns", "rho", *tests, "Wilks, step 2", "permutation, step 2"), shown("power"))
    page.say(
        "Second steps of permutations beside one strong pair: the share rejected at 5 %, in percent, of 250 data sets. With a ridge, `test` gives NaN there."
    )
    page.table(
        ("rows", "columns", "ridge", "step 2"),
        [
            (f"{r['n']}", f"{r['p']} + {r['q']}", f"{r['ridge']:g}", f"{100 * r['step 2']:.1f}")
            for r in record["records"]
            if r["what"] == "later"
        ],
    )
    page.say("Share of 1000 data sets of noise above the noise level of their fit.")
    page.table(
        ("rows", "columns", "noise level", "above it"),
        [
            (f"{r['n']}", f"{r['p']} + {r['q']}", f"{r['level']:.4f}", f"{100 * r['above']:.1f} %")
            for r in record["records"]
            if r["what"] == "coverage"
        ],
    )
    ratios = [(r["what"], f"{r['ratio']:.3g}") for r in record["records"] if "ratio" in r]
    page.table(("cost", "ratio"), ratios)


def _effective(page: Page, record: Record) -> None:
    page.say(
        "Components that lose more than half of their correlation on other rows, told by numbers of rows: precision and recall at the threshold that is best on these fits, and of the rule that is kept. The rule was chosen on random rows with seed 0; the other parts are checks."
    )
    rows = []
    for part, found in record.items():
        if not isinstance(found, dict) or "flagged" not in found:
            continue
        every = found["flagged"]["all"]
        for name in ("participation", "participation, within 0.001", "of scores", "of columns", "kept"):
            best = every[name]["best"]
            rows.append(
                (part, name, f"{best['threshold']:.3g}", f"{best['precision']:.2f}", f"{best['recall']:.2f}")
            )
        kept = every["kept"][f"below {found['few']}"]
        rows.append(
            (
                part,
                f"kept, below {found['few']} rows",
                "",
                f"{kept['precision']:.2f}",
                f"{kept['recall']:.2f}",
            )
        )
    page.table(("rows", "number", "best threshold", "precision", "recall"), rows)


BENCHMARKS: tuple[tuple[str, str, Callable[[Page, Record], None]], ...] = (
    ("Exact CCA of MNIST, against peers", "exact_mnist", _speed),
    ("LOBPCG: time to the correlation, before the head and with it", "joint_head", _head),
    ("LOBPCG: what is missing where a run ends", "stopping", _stopping),
    ("Iterations of LOBPCG before the head", "lobpcg_time", _iterations),
    ("How cost grows", "cost_growth", _growth),
    ("Heuristics, held out", "sparse_comparison", _heuristics),
    ("Tests and the noise level on noise", "inference", _inference),
    ("Effective rows, and what is lost on other rows", "effective_rows", _effective),
    ("One look at every row: share of the exact correlation", "one_pass", _onepass),
    ("Files larger than memory", "larger_than_memory", _files),
    ("Kernel CCA of MNIST", "kernel_cca", _kernels),
    ("Sparse CCA: ten planted columns a side", "sparse_cca", _sparse),
    ("Clusters", "dask_cluster", _cluster),
    ("The authors' curves", "paper_curves", _curves),
    ("Memory", "peak_memory", _memory),
    ("Steps", "step_sizes", _steps),
    ("Fingerprints of checkpoints", "fingerprint", _fingerprint),
    ("Small fits on a busy machine", "small_fits", _small),
)
