"""Writes docs/results.md from the records of experiments and benchmarks: what was measured is not written by hand.

python docs/write_results.py [--records docs/results] [--figures docs/figures] [--page docs/results.md]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from appgrad.experiments.curves import reached
from appgrad.experiments.records import Record, curves_of, read, sets, slug
from benchmark_tables import BENCHMARKS
from claims import does_it_need_less, proportions, shortfalls
from result_page import Page
from use_tables import few_labels, retrieval

HERE = Path(__file__).parent
LEVELS = (70, 80, 90, 95, 99)
PAPER = {
    "Mediamill": ("Mediamill", "100", "120", "30,000"),
    "MNIST": ("MNIST", "392", "392", "60,000"),
    "PTB, next word": ("Penn Tree Bank", "10,000", "10,000", "500,000"),
    "PTB, two words either side": ("Penn Tree Bank", "10,000", "10,000", "500,000"),
    "malicious_urls": ("URL Reputation", "100,000", "100,000", "1,000,000"),
    "debian_paths": ("URL Reputation", "100,000", "100,000", "1,000,000"),
    "URL Reputation": ("URL Reputation", "100,000", "100,000", "1,000,000"),
}


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=Path, default=HERE / "results")
    parser.add_argument("--figures", type=Path, default=HERE / "figures")
    parser.add_argument("--page", type=Path, default=HERE / "results.md")
    options = parser.parse_args()
    options.page.write_text(written(options.records, options.figures, options.page))


def written(records: Path, figures: Path, where: Path) -> str:
    """The text of the page."""
    page = Page(records, figures, where)
    found = {path.stem: read(path) for path in sorted(records.glob("*.jsonl"))}
    if not found:
        raise SystemExit(f"{records} holds no records (*.jsonl): run `make experiments`")
    page.say("# Results")
    page.say(
        "The experiments of Ma, Lu & Foster (2015), section 4, run again, and more. `make experiments` runs them (`make experiments "
        "QUICK=1` in minutes, with fewer iterations) and writes this page: every number measured is read from a record, one JSON object for each "
        "point, and figures are drawn from records. log(FLOP) is the natural logarithm, as in the paper; it counts iterations, not what comes before the first (means, preconditioner, "
        "choice of a step). Operations are exact; seconds are those of one run on a machine that had other work in places. A curve is one run: a stochastic one averages in the second half of its length, and would do so earlier in a shorter run."
    )
    page.say(
        "TCC, total correlation captured, is the sum of the canonical correlations between the scores of the two views, at most 20 for the twenty components asked for throughout; PCC is its share of what the true "
        "solution captures on the same rows. Both are taken without a ridge. Out of sample, PCC can exceed 100 %: the true solution of the training rows is not the best one for others."
    )
    if any(header["quick"] for header, _ in found.values()):
        page.say("**A quick run: curves end early.**")
    _sizes(page, found)
    for name in ("mnist", "mediamill", "ptb"):
        if name in found:
            _proportions(page, name, *found[name])
    does_it_need_less(page, found)
    if "url" in found:
        _totals(page, *found["url"])
    if "bilingual" in found:
        retrieval(page, *found["bilingual"])
    if "mnist" in found:
        few_labels(page, *found["mnist"])
    shortfalls(page, found)
    if (records / "benchmarks").is_dir():
        _benchmarks(page, records / "benchmarks")
    return "\n".join(page.lines).rstrip() + "\n"


# What the rows and the two views are.
CONTENT = {
    "MNIST": "left and right halves of handwritten digits",
    "Mediamill": "features of video frames, labels",
    "PTB, next word": "a word of the Wall Street Journal, the next word",
    "PTB, two words either side": "a word, counts of the two words before and after",
    "malicious_urls": "tokens of the host, of the path, of good and bad URLs",
    "debian_paths": "tokens of the folder, of the file name, of files in Debian packages",
    "bilingual_en_it": "words of English and of Italian package descriptions",
    "URL Reputation": "host-based features, lexical ones",
}


def _sizes(page: Page, found: dict[str, tuple[Record, list[Record]]]) -> None:
    page.say("## Table 1: the data")
    rows = []
    for name in ("mnist", "mediamill", "ptb", "url", "bilingual"):
        records = found[name][1] if name in found else []
        for r in (r for r in records if r["kind"] == "sizes"):
            theirs = PAPER.get(r["set"])
            entries = f"{r['entries']:.1f}" if "entries" in r else "-"
            ours = (f"{r['p1']:,}", f"{r['p2']:,}", f"{r['n']:,}", f"{r['n_test']:,}", entries)
            truth = [t for t in records if t["kind"] == "solution" and t["set"] == r["set"]]
            best = f"{truth[0]['tcc_in']:.2f} / {truth[0]['tcc_out']:.2f}" if truth else "-"
            paper = f"{theirs[0]}: {', '.join(theirs[1:])}" if theirs else "-"
            rows.append((r["set"], CONTENT.get(r["set"], "-"), *ours, best, paper))
    heading = (
        "data",
        "views",
        "p1",
        "p2",
        "n",
        "held out",
        "entries a row",
        "true TCC in / out",
        "paper: p1, p2, n",
    )
    page.table(heading, rows)
    page.say(
        "malicious_urls and debian_paths stand for URL Reputation, small and at full scale; entries a row are those that are not zero (dense data: all). The paper counts Mediamill's labels first."
    )


TITLES = {"mnist": "MNIST", "mediamill": "Mediamill", "ptb": "Penn Tree Bank"}
SETTINGS = {
    "mnist": "The authors' setting: pixels / 255, not centred, ridge 0.005, constant step 0.05; minibatches of 50 rows and 200 others for the "
    "normaliser. Circles are the points the authors published with their code, at the cost that our runs had after as many iterations. Three seeds for stochastic methods: pale lines in "
    "the figure, means in the tables. Where [the authors' code differs from the paper](algorithms.md#paper-and-authors-code), we follow the paper.",
    "mediamill": "Centred, default ridge (1e-10 of the variances), one constant step, the best on a tenth of the training rows in trials of a tenth of the run (all in the record); minibatches of 200 rows. Three seeds for stochastic methods.",
    "ptb": "Indicators of words; ridge 1e-5, the variance of a word that is one of 100,000; one constant step, chosen as for Mediamill. `exact` "
    "would take 32 GB here: the truth is LOBPCG's, to residuals of 1e-6. Minibatches of 1,000 rows (preconditioned: 5,000); one seed.",
}


def _proportions(page: Page, name: str, header: Record, records: list[Record]) -> None:
    page.say(f"## {TITLES[name]}: proportion of correlation captured")
    page.made(header, page.records / f"{name}.jsonl")
    page.say(
        SETTINGS[name]
        + " *AppGrad* and *stochastic AppGrad* are the paper's algorithms to the letter; *preconditioned* ones have the preconditioner, oversampling and averaging that this package takes by default. "
        "A point is what a fit returns that ends there: of AppGrad on all rows, the best iterate so far."
    )
    for one in sets(records):
        own = [r for r in records if r.get("set") == one]
        page.figure(
            f"{slug(one)}_pcc", f"{one}: PCC against iterations, log(FLOP) and seconds, in and out of sample"
        )
        page.say(
            f"**{one}**: log(FLOP) at which PCC in sample is reached; the last columns are the last point of the curve."
        )
        page.table(
            ("method", *(f"{level} %" for level in LEVELS), "PCC in", "PCC out", "iterations", "seconds"),
            _reached_rows(own),
        )
        if any(r["kind"] == "published" for r in own):
            _published(page, own)
        for r in own:
            # Steps that are chosen by themselves may be cut: a constant one may not.
            if r["kind"] == "event" and r["method"] in ("AppGrad", "stochastic AppGrad"):
                page.say(f"{r['method']}, seed {r['seed']}, iteration {r['iteration']:,}: {r['event']}.")


def _reached_rows(own: list[Record]) -> Iterable[Iterable[str]]:
    for method, points in proportions(own).items():
        costs = (reached(points, level, "pcc_in", "flops") for level in LEVELS)
        last = points[-1]
        yield (
            method,
            *("" if cost is None else f"{np.log(cost):.1f}" for cost in costs),
            f"{last['pcc_in']:.1f}",
            f"{last['pcc_out']:.1f}",
            f"{last['iteration']:,}",
            f"{last['seconds']:.1f}",
        )
    (truth,) = [r for r in own if r["kind"] == "solution"]
    if truth["method"] == "exact":
        cost = f"{np.log(truth['flops']):.1f}"
        yield ("exact", *[cost] * len(LEVELS), "100.0", "100.0", "", f"{truth['seconds']:.2f}")


def _published(page: Page, own: list[Record]) -> None:
    """Our curves at the iterations that the authors published."""
    rows, (truth,) = [], [r for r in own if r["kind"] == "solution"]
    for method, seeds in curves_of(own).items():
        for r in own:
            if r["kind"] != "published" or r["method"] != method:
                continue
            here = [p for points in seeds for p in points if p["iteration"] == r["iteration"]]
            if here:
                ours = [
                    f"{np.mean([100 * p[f'tcc_{s}'] / truth[f'tcc_{s}'] for p in here]):.1f}"
                    for s in ("in", "out")
                ]
                rows.append((method, r["iteration"], r["pcc_in"], ours[0], r["pcc_out"], ours[1], len(here)))
    page.say("The authors' points beside ours, means of so many seeds:")
    heading = ("method", "iterations", "published, in", "here, in", "published, out", "here, out", "seeds")
    page.table(heading, rows)


def _totals(page: Page, header: Record, records: list[Record]) -> None:
    page.say("## URL Reputation: total correlation captured")
    page.made(header, page.records / "url.jsonl")
    page.say(
        "Twenty components, of at most 20 in total; five more columns for stochastic AppGrad, as in the paper; ridge 1e-5; a tenth of the rows held out. *stochastic AppGrad* has no preconditioner, and steps that it chooses by itself, as the preconditioned one. Heuristics are dashed lines, "
        "their costs marks. The original data are read by `appgrad experiment url --data` as well, where there are any."
    )
    for one in sets(records):
        own = [r for r in records if r.get("set") == one]
        page.figure(f"{slug(one)}_tcc", f"{one}: TCC against log(FLOP) and seconds, in and out of sample")
        rows = [(m, points[0][-1]) for m, points in curves_of(own).items()]
        rows += [(r["method"], r) for r in own if r["kind"] == "heuristic"]
        page.say(f"**{one}**, at the end of each run:")
        page.table(
            ("method", "TCC in sample", "out of sample", "log(FLOP)", "seconds"),
            (
                (
                    m,
                    f"{r['tcc_in']:.2f}",
                    f"{r['tcc_out']:.2f}",
                    f"{np.log(r['flops']):.1f}",
                    f"{r['seconds']:.1f}",
                )
                for m, r in rows
            ),
        )


def _benchmarks(page: Page, folder: Path) -> None:
    page.say("## Benchmarks")
    page.say(
        "Each a ratio or a count within one run where it can be; `make bench` runs them all, `python -m benchmarks` lists them (commands of 0.1.0 had other names). Dates and versions of records that had none are those of the commits that brought them."
    )
    for title, name, tell in BENCHMARKS:
        if (folder / f"{name}.json").exists():
            record = json.loads((folder / f"{name}.json").read_text())
            page.say(f"### {title}")
            page.made(record, folder / f"{name}.json", f"python -m benchmarks {name}")
            tell(page, record)


if __name__ == "__main__":
    main()
