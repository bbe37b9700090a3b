"""Fit random problems and print what is wrong: fuzz.py --minutes M --seed S [--only TEXT] [--case N]

Each case is a number: its data and setting are drawn from (seed, number), so that `--seed S --case N` repeats
it alone. Every estimator, solver and option is tried on near-collinear columns, totals, ties, one-hot and
constant columns, scales, means, more columns than rows; dense and sparse, in single and double precision and
integers. The correlations are compared with those of an oracle of 100 digits; `fuzzing/oracle.py` says what
counts as right. Printed are

- silent errors: off by more than 1e-6 (direct solvers), or by more than 1e-3 and 3 tol of the total
  (iterative ones), with no warning and no error;
- more correlation than there is; error bounds that do not hold; scores that are not correlated as said; NaN,
  infinity, values outside of [0, 1] or not sorted;
- errors other than ValueError and TypeError, errors where there is an answer, and warnings of numpy.

The exit code is 1 if there was any.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from fuzzing.judge import Failure, Verdict, is_about_convergence, outcome_of, verdict
from fuzzing.problems import data
from fuzzing.settings import setting

SILENT = "silent error"
# Seconds after which a fit counts as one that hangs.
LIMIT = 120


class Hangs(BaseException):
    """A fit takes too long."""


def _hang(*_: Any) -> None:
    raise Hangs


class Tried(NamedTuple):
    """A case: its description, what is wrong, and whether it warned."""

    text: str
    verdict: Verdict
    warned: bool


def tried(seed: int, number: int, only: str = "") -> Tried | None:
    """The case of this number; None if it is not one of `only`."""
    drawn = np.random.default_rng([seed, number])
    problem = data(drawn)
    asked = setting(drawn, problem)
    text = f"{asked}; {problem.story}"
    if only not in text:
        return None
    signal.alarm(LIMIT)
    try:
        outcome = outcome_of(asked, problem, drawn)
    except Hangs:
        return Tried(text, Verdict([Failure("hangs", f"more than {LIMIT} s")], judged=False), warned=False)
    finally:
        signal.alarm(0)
    judged = verdict(asked, problem, outcome, drawn)
    return Tried(text, judged, is_about_convergence(outcome.warned))


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Try cases for some minutes, or one case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="cases whose description holds this text")
    parser.add_argument("--case", type=int, help="this case alone")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _hang)
    end, number = time.monotonic() + 60 * options.minutes, 0
    count = warned = judged = silent = 0
    kinds: Counter[str] = Counter()
    while time.monotonic() < end:
        case = number if options.case is None else options.case
        found = tried(options.seed, case, options.only)
        number += 1
        if found is not None:
            text = found.text
            count, warned, judged = count + 1, warned + found.warned, judged + found.verdict.judged
            for kind, what in found.verdict.failures:
                silent += kind.startswith(SILENT)
                solver = text.partition("solver='")[2].partition("'")[0]
                kinds[f"{kind}: {text.partition(':')[0]}, {solver}"] += 1
                say(f"--seed {options.seed} --case {case}: {kind}: {what} [{text}]")
        if options.case is not None:
            say(text)
            break
    say(f"\n{count} cases, {judged} of them compared with the oracle, {warned} with a warning of convergence")
    say(f"{silent} silent errors, {sum(kinds.values()) - silent} other failures")
    for kind, times in kinds.most_common():
        say(f"{times:6} {kind}")
    sys.exit(1 if kinds else 0)


if __name__ == "__main__":
    main()
