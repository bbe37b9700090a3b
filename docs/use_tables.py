"""Parts of the results page on what CCA is good for."""

from __future__ import annotations

from typing import Any

import numpy as np

from appgrad.experiments.bilingual import method_name, weighted_retrievals
from appgrad.experiments.records import Record
from result_page import Page


def retrieval(page: Page, header: Record, records: list[Record]) -> None:
    """How many translations are found."""
    page.say("## What it is good for: finding translations")
    page.made(header, page.records / "bilingual.jsonl")
    (size,) = [r for r in records if r["kind"] == "sizes"]
    page.say(
        f"Word counts of English and Italian descriptions of software packages: the models see the first {size['n']:,} rows, and each of {size['n_test']:,} later ones is looked for "
        "among all of these by the cosine of its scores times their correlations. No description is there twice, none is one of the fit, in either language; but descriptions resemble each other, also across the "
        "split, and share names. Percent found first / among the first ten:"
    )
    page.figure("bilingual_retrieval", "Translations found, by ridge, method and number of components")
    found = weighted_retrievals(records)
    widths = sorted({r["k"] for r in found})
    rows, best = [], {}
    for name, ridge in dict.fromkeys((method_name(r), r["ridge"]) for r in found):
        own = {r["k"]: r for r in found if (method_name(r), r["ridge"]) == (name, ridge)}
        cells = (f"{100 * own[k]['top1']:.1f} / {100 * own[k]['top10']:.1f}" for k in widths)
        rows.append((name, f"{ridge:g}", *cells, f"{own[widths[-1]]['seconds']:.0f}"))
        best[name] = max(best.get(name, (0.0, 0.0)), (own[widths[-1]]["top1"], ridge))
    page.table(("method", "ridge", *(f"k = {k}" for k in widths), f"seconds, k = {widths[-1]}"), rows)
    ends = ", ".join(f"{name} {100 * top:.1f} ({ridge:g})" for name, (top, ridge) in best.items())
    page.say(
        f"Each with the ridge that suits it best, k = {widths[-1]}, found first: {ends}. These ridges are chosen on the candidates themselves, for all methods alike."
    )


def few_labels(page: Page, header: Record, records: list[Record]) -> None:
    """How many digits are told from few labels."""
    found = [r for r in records if r["kind"] == "labels"]
    page.say("## What it is good for: few labels")
    page.made(header, page.records / "mnist.jsonl")
    page.say(
        "Digits told from their left half alone. Features come from all 60,000 images without labels: canonical scores of the left half with the right half, each times its correlation; "
        "principal components of the left half; its pixels. A logistic regression, its penalty chosen by cross-validation, then sees a few labels. Percent right of 10,000 test images, "
        f"mean and standard deviation of {len({r['seed'] for r in found})} draws:"
    )
    page.figure("mnist_labels", "Accuracy against the number of labels, for 20, 50 and 100 features")
    sizes = sorted({r["labels"] for r in found})
    means: dict[tuple[str, Any, Any], list[float]] = {}
    spreads: dict[tuple[str, Any, Any], list[float]] = {}
    for key in dict.fromkeys((r["features"], r["k"], r["ridge"]) for r in found):
        own = [r for r in found if (r["features"], r["k"], r["ridge"]) == key]
        every = [[100 * r["accuracy"] for r in own if r["labels"] == n] for n in sizes]
        means[key], spreads[key] = (
            [float(np.mean(v)) for v in every],
            [float(np.std(v, ddof=1)) for v in every],
        )
    rows = []
    for (features, k, ridge), values in means.items():
        name = features + (f", k = {k}" if k else "") + (f", ridge {ridge:g}" if ridge else "")
        both = zip(values, spreads[features, k, ridge], strict=True)
        rows.append((name, *(f"{value:.1f} ± {spread:.1f}" for value, spread in both)))
    page.table(("features", *(f"{size} labels" for size in sizes)), rows)
    best = {
        cca: np.max([values for key, values in means.items() if (key[0] == "CCA") == cca], axis=0)
        for cca in (True, False)
    }
    gains = ", ".join(
        f"{gain:+.2f} ({n} labels)" for gain, n in zip(best[True] - best[False], sizes, strict=True)
    )
    page.say(
        f"The best canonical features against the best of pixels and principal components, in points: {gains}. One half of a digit says little "
        "that its principal components do not: what gain there is, is about the spread of the draws, and there only with a ridge that suits it, here chosen on the test images."
    )
