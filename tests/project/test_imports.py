"""Imports are lazy: a fit loads only what it needs, and help next to nothing."""

import importlib
import os
import subprocess
import sys

import pytest

import appgrad

# Slow to import, and none of them is needed to fit arrays.
HEAVY = ("rich", "typer", "matplotlib", "pandas", "pyarrow", "polars", "dask", "distributed")


def modules_after(code: str, *arguments: str) -> set[str]:
    """The modules that are there after running code in a fresh interpreter."""
    program = f"import atexit, sys\natexit.register(lambda: print('MODULES', *sys.modules))\n{code}"
    command = [sys.executable, "-c", program, *arguments]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    *_, last = done.stdout.splitlines()
    assert last.startswith("MODULES"), done.stderr
    return set(last.split()[1:])


@pytest.fixture(scope="module")
def scikit_learn():
    return modules_after("from sklearn.cross_decomposition import CCA")


def test_an_estimator_is_imported_alone(scikit_learn):
    found = modules_after("from appgrad import CCA")
    assert not [name for name in HEAVY if name in found - scikit_learn]
    # Estimators, kernels, files and clusters that CCA of arrays does without, and slow parts of scikit-learn.
    for name in ("sklearn.metrics", "sklearn.model_selection", "sklearn.datasets", "scipy.io"):
        assert name not in found - scikit_learn
    for name in ("estimators.kernel", "estimators.sparse", "data.files.readers", "data.cluster", "reporting"):
        assert f"appgrad.{name}" not in found


def test_a_fit_of_arrays_imports_no_more(scikit_learn):
    fit = "X = np.random.default_rng(0).random((9, 2))\nCCA(1).fit(X, X)"
    found = modules_after(f"import numpy as np\nfrom appgrad import CCA\n{fit}")
    assert not [name for name in HEAVY if name in found - scikit_learn]


def test_the_package_itself_imports_nothing():
    found = modules_after("import appgrad\ndir(appgrad)")
    assert {name for name in found if name.startswith("appgrad")} == {"appgrad", "appgrad.version"}
    assert "numpy" not in found


@pytest.mark.parametrize("arguments", [("--help",), (), ("--version",), ("fit", "--help"), ("fit",)])
def test_help_waits_for_no_mathematics(arguments):
    found = modules_after("from appgrad.cli.main import main\nmain()", *arguments)
    assert "typer" in found
    assert not found & {"numpy", "scipy", "sklearn", "joblib"}


def test_all_public_names_are_found():
    for name in appgrad.__all__:
        assert getattr(appgrad, name) is getattr(appgrad, name)
    assert set(appgrad.__all__) <= set(dir(appgrad))
    for name in ("baselines", "datasets", "plots"):
        assert importlib.import_module(f"appgrad.{name}") is getattr(appgrad, name)
    code = "from appgrad import *\nimport appgrad.plots\nassert appgrad.plots is plots and CCA and tcc"
    assert "appgrad.plots" in modules_after(code)


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="module 'appgrad' has no attribute 'CCAA'"):
        appgrad.CCAA  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'CCAA' from 'appgrad'"):
        from appgrad import CCAA  # noqa: F401


def test_readers_and_interpreters_are_told_the_same():
    """What type checkers read is what is imported."""
    import ast
    import inspect

    tree = ast.parse(inspect.getsource(appgrad))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    homes = {alias.name: node.module for node in block.body for alias in node.names}
    modules = {name for name, module in homes.items() if module is None}
    assert {name: module for name, module in homes.items() if module} == appgrad._HOMES
    assert modules == set(appgrad._MODULES)
    assert set(appgrad._HOMES) | {"__version__", "datasets", "plots"} == set(appgrad.__all__)
