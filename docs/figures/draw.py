"""Draws the figures of docs/algorithms.md, docs/choosing.md and docs/reports.md.

    python docs/figures/draw.py

The bound of Theorem 2.1 and section 3's sampled Gram matrix are the numbers that tests/project/test_theory.py checks,
growth and crossing those of docs/results/benchmarks/cost_growth.json, where python -m benchmarks cost_growth has written it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator

HERE = Path(__file__).parent
RECORD = HERE.parent / "results" / "benchmarks" / "growth.json"
COLORS = ("#1f5fa8", "#d1495b", "#4c956c", "#e09f3e")
TESTS = HERE.parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "project")]


def local_rate() -> None:
    """Error of AppGrad inside the contraction region, and the theorem's bound, for three starts."""
    from test_theory import local_rate

    figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    for share, color in ((0.01, "#1f5fa8"), (0.3, "#d1495b"), (0.9, "#4c956c")):
        errors, bounds = local_rate(0, share, steps=600)
        name = f"$e_0$ at {share:.0%} of the region"
        ax.semilogy(errors, color=color, label=f"{name}: measured")
        ax.semilogy(bounds, color=color, linestyle="--", label="bound")
    ax.set(xlabel="iteration", ylabel=r"$\|\Delta\tilde\phi\|^2 + \|\Delta\tilde\psi\|^2$")
    ax.set_ylim(1e-6, 2)
    ax.legend(frameon=False, fontsize=8, loc="lower left")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "local_rate.png", dpi=120)


def sampled_gram() -> None:
    """Relative error of phi' S_m phi against m, for growing p, and that of S_m itself."""
    from test_theory import sampled_gram_error

    figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    sizes = np.array([10, 20, 50, 100, 200, 500, 1000])
    for p, color in ((20, "#1f5fa8"), (100, "#d1495b"), (500, "#4c956c")):
        errors = np.array([sampled_gram_error(p, m, repeats=10) for m in sizes])
        ax.loglog(sizes, errors[:, 0], "o-", color=color, label=f"p = {p}: 5 x 5 Gram matrix")
        ax.loglog(sizes, errors[:, 1], "s--", color=color, alpha=0.6, label="the p x p matrix")
    ax.set(xlabel="sampled rows m", ylabel="relative error (spectral norm)")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "sampled_gram.png", dpi=120)


def _readable(ax: plt.Axes) -> None:
    """Numbers instead of powers on a logarithmic axis of few decades."""
    ax.minorticks_off()
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)


def growth() -> None:
    """Time and memory of ten iterations of LOBPCG, one variable at a time."""
    record = json.loads(RECORD.read_text())
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    names = {"n": "rows", "p": "columns", "k": "components", "entries": "stored entries"}
    for (variable, name), color in zip(names.items(), COLORS, strict=True):
        found = record[variable]
        multiples = [value / found["values"][0] for value in found["values"]]
        for ax, what, unit in ((axes[0], "seconds", 1), (axes[1], "bytes", 2**20)):
            slope = found["exponents"]["time" if what == "seconds" else "memory"]
            label = f"{name}: exponent {slope:.2f}"
            ax.loglog(multiples, [v / unit for v in found[what]], "o-", color=color, label=label)
    for ax, title in ((axes[0], "seconds"), (axes[1], "MB beyond the data")):
        ax.set(xlabel="times the base value", ylabel=title, xticks=[1, 2, 4, 8], xticklabels=[1, 2, 4, 8])
        _readable(ax)
    base = record["base"]
    figure.suptitle(
        f"base: {base['n']:,} rows of {base['entries']} entries, {base['p']:,} columns, k = {base['k']}",
        fontsize=9,
    )
    figure.savefig(HERE / "growth.png", dpi=120)


def crossing() -> None:
    """Covariances against LOBPCG, and what auto takes."""
    record = json.loads(RECORD.read_text())["crossing"]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    titles = {"dense": "20,000 dense rows", "sparse": "400,000 rows of 5 + 5 entries"}
    for ax, (kind, title) in zip(axes, titles.items(), strict=True):
        rows = record[kind]
        p = [row["p"] for row in rows]
        for solver, color in zip(("exact", "lobpcg"), COLORS, strict=False):
            ax.loglog(p, [row[solver] for row in rows], "o-", color=color, label=solver)
        taken = [(row["p"], row[row["auto"]]) for row in rows]
        circle = {"s": 130, "facecolors": "none", "edgecolors": "black", "label": "taken by auto"}
        ax.scatter(*zip(*taken, strict=True), **circle)
        ax.set(xlabel="columns a view", ylabel="seconds", xticks=p, xticklabels=p)
        ax.set_title(f"{title}, k = 5", fontsize=9)
        _readable(ax)
    figure.savefig(HERE / "crossing.png", dpi=120)


def wine() -> None:
    """The figure of docs/reports.md, by the code that stands there."""
    (code, *_) = re.findall(r"```python\n(.*?)```", (HERE.parent / "reports.md").read_text(), re.DOTALL)
    exec(code.replace('"wine.png"', f'"{HERE / "wine.png"}"').replace("print(", "str("), {})


def report() -> None:
    """A report on digits the model has not seen, as Chromium shows it."""
    from selenium import webdriver
    from sklearn.datasets import load_digits

    digits = load_digits()
    names = ["left", "right", "new_left", "new_right"]
    halves = digits.images[:, :, :4], digits.images[:, :, 4:]
    parts = [half.reshape(len(half), -1) for half in halves]
    with TemporaryDirectory() as folder:
        for name, part in zip(names, [p[:1200] for p in parts] + [p[1200:] for p in parts], strict=True):
            np.save(Path(folder, f"{name}.npy"), part)
        Path(folder, "labels.txt").write_text("\n".join(map(str, digits.target[1200:])))
        for command in (
            "fit left.npy right.npy -k 4 --ridge 0.1 -o digits.cca",
            "report digits.cca new_left.npy new_right.npy --labels labels.txt -o report.html",
        ):
            subprocess.run([sys.executable, "-m", "appgrad", *command.split()], cwd=folder, check=True)
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for argument in ("headless", "no-sandbox", "hide-scrollbars", "window-size=900,1280"):
            options.add_argument(f"--{argument}")
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        with webdriver.Chrome(options=options, service=service) as browser:
            browser.get(Path(folder, "report.html").as_uri())
            browser.save_screenshot(str(HERE / "report.png"))


if __name__ == "__main__":
    local_rate()
    sampled_gram()
    wine()
    if shutil.which("chromium") and shutil.which("chromedriver"):
        report()
    if RECORD.exists():
        growth()
        crossing()
