"""The fuzz script: its oracle against known answers, and that it finds a wrong answer and repeats it."""

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import fuzz
import naive
from fuzzing.oracle import Exact
from fuzzing.problems import Data
from fuzzing.settings import Setting
from fuzzing.truth import Truth

ROOT = Path(__file__).parents[2]
NO_RIDGE = 0


def exact(X, Y, ridge=NO_RIDGE, center=True):
    found = Exact(X, Y, center)
    return found.correlations(found.ridges(ridge, False, False))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("ridge", [0, 0.3])
@pytest.mark.parametrize("n", [200, 6])
def test_the_oracle_is_the_textbook(n, ridge, center, rng):
    X, Y = rng.standard_normal((n, 4)) + 2, rng.standard_normal((n, 3))
    Y[:, 0] += X[:, 1]
    expected = naive.cca(X, Y, 3, ridge, center)[0]
    np.testing.assert_allclose(exact(X, Y, ridge, center).astype(float)[:3], expected, atol=1e-9)


@pytest.mark.parametrize("eps", [2.0**-10, 2.0**-25, 2.0**-29])
def test_the_oracle_sees_a_signal_however_small_its_direction(eps):
    """Whole numbers with a known answer: y is the difference of two columns, and some noise."""
    x = np.array([1.0, -1, 1, -1, 1, -1, 1, -1])
    z = np.array([1.0, 1, -1, -1, 1, 1, -1, -1])
    w = np.array([1.0, 1, 1, 1, -1, -1, -1, -1])
    found = exact(np.column_stack([x, x + eps * z]), (2 * z + w)[:, None])
    assert abs(found[0] ** 2 - Decimal(4) / 5) < Decimal(10) ** -60


def test_a_rounded_total_may_count_or_not(rng):
    X = rng.standard_normal((40, 3))
    Y = rng.standard_normal((40, 2))
    total = np.column_stack([X, X.sum(axis=1)])
    truth = Truth(Setting("fit", {"n_components": 2, "ridge": 0}), Data(total, Y, (total, Y), "", False), rng)
    assert truth.error(exact(total, Y).astype(float)) < 1e-9
    assert truth.error(exact(X, Y).astype(float)) < 1e-9
    assert truth.error(exact(X[:, :2], Y).astype(float)) > 1e-3


def test_a_case_is_the_same_every_time():
    found = [fuzz.tried(0, 3) for _ in range(2)]
    assert found[0] == found[1]


def test_a_wrong_answer_is_printed_and_repeated(tmp_path):
    """A copy of the library whose correlations are a little off."""
    code = "; ".join(
        [
            "import sys",
            f"sys.path.insert(0, {str(ROOT / 'tests')!r})",
            "import fuzz, appgrad.solvers.exact as e",
            "right = e.svd_and_squares",
            "e.svd_and_squares = lambda T, k: (lambda U, s, *more: (U, s * 0.999, *more))(*right(T, k))",
            "fuzz.main()",
        ]
    )
    options = ["--minutes", "0.05", "--seed", "5", "--only", "solver='exact'"]
    done = subprocess.run([sys.executable, "-c", code, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "silent error (direct)" in done.stdout
    assert "--seed 5 --case " in done.stdout


@pytest.mark.parametrize(
    ("seed", "case"),
    [
        (4, 142),  # stochastic, float32: measured in single precision
        (201, 218),  # exact, a huge ridge: scores are small differences
        (201, 306),  # a kernel of a constant column
        (201, 447),  # lobpcg without a preconditioner, columns 4e-9 apart
        (202, 152),  # a kernel of sparse rows far from zero
        (202, 198),  # covariances of shares
        (202, 1759),  # a kernel whose ridge is below rounding, stochastic
        (202, 1972),  # appgrad, float32
        (202, 2360),  # more components than directions that are related
        (302, 398),  # appgrad, low rank
        (777001, 1843),  # stochastic: the sum of shares varies in its last digit
        (777002, 895),  # appgrad: columns lost in rounding
        (888001, 21),  # appgrad: a probe hides the pairs it looks at
        (888001, 3650),  # exact, float32: a ridge below what rounding leaves
        (271828, 2715),  # als on matrices: products that have drifted
        (271828, 6136),  # qr: a ridge of 1e-24 of the mean squares
        (141421, 2863),  # appgrad without a preconditioner: probed in units of the data
        (20261118, 3465),  # qr, float32: columns that differ by a few roundings
    ],
)
def test_what_was_found_once_stays_mended(seed, case):
    found = fuzz.tried(seed, case)
    assert not found.verdict.failures, found.text
