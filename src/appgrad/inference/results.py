"""The result of a test of canonical correlations: tables, text, HTML and JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from typing import Any, Self, cast

import numpy as np

from ..machine.arrays import Array
from ..machine.readable import ranges
from .multivariate_tests import Statistic

PARAMETRIC, PERMUTATION, HELD_OUT = "parametric", "permutation", "held-out"
METHODS = ("auto", PARAMETRIC, PERMUTATION, HELD_OUT)
TESTED_BY = {
    PARAMETRIC: "Wilks' step-down test",
    PERMUTATION: "step-down permutations",
    HELD_OUT: "held-out rows",
}
# Numbers of a statistic.
NUMBERS = Statistic._fields[:-1]
# Most rows of a table in a text.
SHOWN = 20


@dataclass(frozen=True, eq=False)
class CanonicalTest:
    """A test of canonical correlations: that those from each component on are zero.

    Attributes
    ----------
    method : {"parametric", "permutation", "held-out"}
        How p-values were obtained, and `reason` why in this way.
    p_values : ndarray
        A p-value for each step: that of component k tests that it and all after it are zero. Of held-out
        rows, each component is tested by itself.
    family_wise : ndarray
        The same for all components up to k together, by running maxima: rejecting those below 0.05 makes
        an error in about 5 % of all data sets, if rows are far more than columns (`notes` say where not).
    table : DataFrame, or record array without pandas
        A row for each step, with statistics and p-values.
    multivariate : DataFrame, record array or None
        Wilks' lambda, Pillai's trace, the Hotelling-Lawley trace and Roy's greatest root.
    n_samples, ranks : int, pair of int
        Number of rows tested and of independent columns of each view; of all columns for held-out rows.
    n_resamples : int or None
        Number of permutations.
    notes : tuple of str
        What a reader has to know beyond the tables.
    """

    method: str
    reason: str
    n_samples: int
    ranks: tuple[int, int]
    columns: dict[str, Array]
    p_values: Array
    family_wise: Array
    statistics: dict[str, Statistic] | dict[str, float]
    n_resamples: int | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for values in (self.p_values, self.family_wise, *self.columns.values()):
            values.flags.writeable = False

    @property
    def table(self) -> Any:
        """The steps as a data frame where pandas is there, else as a record array."""
        return _framed(self.columns, "component", np.arange(1, len(self.p_values) + 1))

    @property
    def multivariate(self) -> Any:
        """The multivariate statistics as a data frame or record array; None for held-out rows."""
        if not self.statistics:
            return None
        return _framed(self._statistic_columns(), "statistic", np.array(list(self.statistics), dtype=object))

    def summary(self) -> str:
        """The tables and how to read them, as text."""
        parts = [self._title(), _text(self.columns, [str(i + 1) for i in range(len(self.p_values))])]
        if self.statistics:
            parts.append(_text(self._statistic_columns(), list(self.statistics)))
        return "\n\n".join([*parts, "\n".join([self.conclusion(), *self.notes])])

    def __str__(self) -> str:
        return self.summary()

    def conclusion(self, level: float = 0.05) -> str:
        """One sentence: which components are significant, and by which test."""
        with np.errstate(invalid="ignore"):
            which = np.flatnonzero(self.family_wise <= level)
        if not len(which):
            return f"By {TESTED_BY[self.method]}, no component is significant at {level:g}."
        many, are = ("component", "is") if len(which) == 1 else ("components", "are")
        by = TESTED_BY[self.method]
        return f"By {by}, {many} {ranges(which + 1)} {are} significant at {level:g} (family-wise)."

    def to_json(self) -> str:
        """All of the result as a JSON object in a string; NaN is null."""
        return json.dumps(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """All of the result as lists and numbers; NaN is None."""
        statistics = {
            name: {"p": _plain(found)}
            if isinstance(found, float)
            else {key: _plain(value) for key, value in found._asdict().items()}
            for name, found in self.statistics.items()
        }
        return {
            "method": self.method,
            "reason": self.reason,
            "n_samples": self.n_samples,
            "ranks": list(self.ranks),
            "n_resamples": self.n_resamples,
            "table": {name: [_plain(value) for value in values] for name, values in self.columns.items()},
            "p_values": [_plain(value) for value in self.p_values],
            "family_wise": [_plain(value) for value in self.family_wise],
            "multivariate": statistics,
            "conclusion": self.conclusion(),
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """The result that `to_dict` gave; TypeError, KeyError or ValueError if it is not one."""
        method, count, n = found["method"], found["n_resamples"], found["n_samples"]
        texts = [found["reason"], *found["notes"], *found["table"], *found["multivariate"]]
        if method not in METHODS[1:] or not all(isinstance(text, str) for text in texts):
            raise TypeError("a test is not said in words")
        if type(n) is not int or not (count is None or type(count) is int):
            raise TypeError(f"a test of {n!r} rows with {count!r} permutations")
        columns = {name: _numbers(values) for name, values in found["table"].items()}
        p_values, family_wise = _numbers(found["p_values"]), _numbers(found["family_wise"])
        if {len(values) for values in (p_values, family_wise, *columns.values())} != {len(p_values)}:
            raise TypeError("columns of a test differ in length")
        if np.any(p_values > 1) or np.any(p_values < 0) or np.any(family_wise > 1) or np.any(family_wise < 0):
            raise TypeError("p-values are not from 0 to 1")
        statistics = {
            name: _number(part["p"])
            if method == PERMUTATION
            else Statistic(reference=str(part["reference"]), **{key: _number(part[key]) for key in NUMBERS})
            for name, part in found["multivariate"].items()
        }
        tails = np.array([part if isinstance(part, float) else part.p for part in statistics.values()])
        if np.any(tails < 0) or np.any(tails > 1) or (method == PERMUTATION and np.any(np.isnan(tails))):
            raise TypeError("p-values of statistics are not from 0 to 1")
        x, y = found["ranks"]
        if type(x) is not int or type(y) is not int or min(x, y, n) < 0:
            raise TypeError(f"a test of {n!r} rows with {x!r} + {y!r} columns")
        return cls(
            method,
            found["reason"],
            n,
            (x, y),
            columns,
            p_values,
            family_wise,
            statistics,  # type: ignore[arg-type]
            count,
            tuple(found["notes"]),
        )

    def _repr_html_(self) -> str:
        """The tables for notebooks."""
        tables = [_html(self.columns, [str(i + 1) for i in range(len(self.p_values))], "component")]
        if self.statistics:
            tables.append(_html(self._statistic_columns(), list(self.statistics), "statistic"))
        words = "".join(f"<p>{escape(text)}</p>" for text in (self.conclusion(), *self.notes))
        return f"<div><p><b>{escape(self._title())}</b></p>{''.join(tables)}{words}</div>"

    def _title(self) -> str:
        kind = "columns" if self.method == HELD_OUT else "independent columns"
        rows = f"{self.n_samples} rows, {self.ranks[0]} + {self.ranks[1]} {kind}"
        how = {
            PARAMETRIC: "tests of normal rows",
            PERMUTATION: f"{self.n_resamples} permutations of the rows",
            HELD_OUT: f"{self.n_resamples} permutations of rows that a second fit has not seen",
        }[self.method]
        return f"Canonical correlations of {rows}: {how}" + (f" ({self.reason})" if self.reason else "")

    def _statistic_columns(self) -> dict[str, Array]:
        found = list(self.statistics.values())
        if isinstance(found[0], float):
            return {"Pr (permutation)": np.array(found)}
        names = ("Value", "Num DF", "Den DF", "F Value", "Pr > F", "p from")
        return {
            name: np.array(values, dtype=object if name == "p from" else float)
            for name, values in zip(names, zip(*found, strict=True), strict=True)
        }


def _numbers(values: list[Any]) -> Array:
    """Numbers of a file, None for NaN; TypeError if they are of another kind."""
    if not isinstance(values, list) or any(type(v) not in (int, float, type(None)) for v in values):
        raise TypeError("a test is not of numbers")
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _number(value: Any) -> float:
    return float(_numbers([value])[0])


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return float(value) if np.isfinite(value) else None


def _framed(columns: dict[str, Array], index: str, labels: Array) -> Any:
    """Columns as a data frame, or as a record array with the labels in the first column."""
    try:
        import pandas as pd
    except ImportError:
        arrays = [labels, *columns.values()]
        return cast(Any, np.rec).fromarrays(arrays, names=[index, *columns])
    return pd.DataFrame(columns, index=pd.Index(labels, name=index))


def _cells(columns: dict[str, Array], labels: list[str]) -> list[list[str]]:
    """A table as text, header first; of many rows the first ones."""
    rows = [["", *columns]]
    for i, label in enumerate(labels[:SHOWN]):
        rows.append([label, *(_cell(name, values[i]) for name, values in columns.items())])
    if len(labels) > SHOWN:
        rows.append([f"... {len(labels) - SHOWN} more", *[""] * len(columns)])
    return rows


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if not np.isfinite(value):
        return "-" if np.isnan(value) else "inf"
    if name.startswith("Pr"):
        return f"{value:.4f}" if value >= 1e-4 else f"{value:.1e}" if value else "< 1e-300"
    if name.endswith("DF"):
        return f"{value:.0f}" if float(value).is_integer() else f"{value:.3f}"
    return f"{value:.4f}" if value == 0 or abs(value) >= 1e-3 else f"{value:.1e}"


def _text(columns: dict[str, Array], labels: list[str]) -> str:
    rows = _cells(columns, labels)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def _html(columns: dict[str, Array], labels: list[str], corner: str) -> str:
    head, *body = _cells(columns, labels)
    head[0] = corner
    cells = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in body
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"
