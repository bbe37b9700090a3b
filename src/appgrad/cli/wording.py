"""Messages of the library in the words of the command line: options instead of parameters."""

from __future__ import annotations

import re

# Options by the names of parameters.
OPTIONS = {
    "n_components": "-k",
    "solver": "--solver",
    "ridge": "--ridge",
    "n_nonzero": "--n-nonzero",
    "alpha": "--alpha",
    "support": "--support",
    "max_iter": "--max-iter",
    "max_passes": "--passes",
    "max_seconds": "--seconds",
    "batch_size": "--batch-size",
    "checkpoint": "--checkpoint",
    "random_state": "--seed",
    "method": "--method",
    "n_resamples": "--resamples",
}
# Where a parameter may stand: not within a path or a longer name, such as a folder `alpha=1/` of files.
BEFORE, AFTER = r"(?<![\w/.'\"-])", r"(?![\w/=]|\.\w)"
VALUE = r"'[^']*'|\([^()]*\)|[-+]?[\w.+-]*\w"
GIVEN = re.compile(rf"{BEFORE}({'|'.join(OPTIONS)})=({VALUE})((?:, or '\w+')*){AFTER}")
NAMED = re.compile(rf"{BEFORE}({'|'.join(name for name in OPTIONS if '_' in name)}){AFTER}")
# Parameters that have no option, and methods.
OTHERS = {
    rf"{BEFORE}tol=([-+\w.]*\w){AFTER}": r"the tolerance of \1",
    rf"{BEFORE}n_nonzero must be integers": "--n-nonzero must be whole numbers",
    r"judge by held-out rows \(score\)": "judge by held-out rows (--holdout)",
    r"held-out rows \(score\)": "held-out rows (--holdout)",
    r"([Gg])ive rows, test\(X, y[^)]*\)": r"\1ive rows, appgrad test model.cca X Y",
    r"give test\(X, y\)": "appgrad test model.cca X Y",
    r"Go on with checkpoint=": "Go on with --resume checkpoint=",
    r"Fit again to finish it": "Its command, run again, finishes it",
    r"scikit-learn's working_memory": "SKLEARN_WORKING_MEMORY (MiB)",
}


def in_options(message: str) -> str:
    """A message of the library in the words of the command line.

    Examples
    --------
    >>> in_options("n_nonzero=(10, 3) stopped at its max_iter: use solver='qr', or 'exact'")
    '--n-nonzero 10,3 stopped at its --max-iter: use --solver qr, or exact'
    """
    for pattern, words in OTHERS.items():
        message = re.sub(pattern, words, message)
    message = GIVEN.sub(_option, message)
    return NAMED.sub(lambda found: OPTIONS[found[1]], message)


def _option(found: re.Match[str]) -> str:
    name, value, others = found.groups()
    value = re.sub(r"[()'\s]", "", value) if value.startswith("(") else value.strip("'")
    return f"{OPTIONS[name]} {value}" + others.replace("'", "")
