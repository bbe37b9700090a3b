"""Mutated files: a model that is whole, or one ValueError that names the file; nothing else, ever.

Others are tried, and what is wrong is printed, by
`PYTHONPATH=src:tests python tests/fitting/test_fuzzed_files.py SEED COUNT`.
"""

import copy
import io
import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA, KernelCCA, SparseCCA, load
from appgrad.data.files.readers import read_table
from appgrad.datasets import planted
from naive import dense

# What takes the place of parts of the JSON.
JUNK = [
    *(None, True, False, 0, 1, -1, 2, 3, 10**6, 10**30, -(2**70), 0.5, -0.0, 1e308, 1e-320),
    *(float("nan"), float("inf"), "", "x", "CCA", "auto", "nan", [], [1], [None], {}, {"a": 1}),
    *([[1, 2], [3]], {"array": "a0"}, {"tuple": []}, {"record": "limits/1", "fields": {}}, {"csr": [1]}),
]


def data():
    p = planted(120, 5, 4, [0.9, 0.6], random_state=0)
    return p.X, p.y


def small_steps(**params):
    return CCA(2, solver="stochastic", batch_size=10, random_state=0, **params)


MODELS = {
    "cca": lambda X, Y: CCA(2, ridge=(0.1, 0.2), step_size=0.5).fit(X, Y),
    "iterative": lambda X, Y: CCA(1, solver="lobpcg", random_state=0).fit(X, Y[:, 0]),
    "sparse": lambda X, Y: SparseCCA(2, penalty="l0", n_nonzero=2, random_state=0).fit(X, Y),
    "gram": lambda X, Y: KernelCCA(2, random_state=0).fit(X[:40], Y[:40]),
    "gram of sparse rows": lambda X, Y: KernelCCA(2, kernel="linear", random_state=0).fit(
        sp.csr_array(X[:40] * (X[:40] > 0)), Y[:40]
    ),
    "nystroem": lambda X, Y: KernelCCA(2, approximation="nystroem", n_landmarks=9, random_state=0).fit(X, Y),
    "fourier": lambda X, Y: KernelCCA(2, approximation="fourier", n_landmarks=8, random_state=0).fit(X, Y),
    "stream of sums": lambda X, Y: CCA(2).partial_fit(X[:50], Y[:50]).partial_fit(X[50:53], Y[50:53]),
    "stream of sparse rows": lambda X, Y: CCA(2).partial_fit(sp.csr_array(X[:5]), sp.csr_array(Y[:5])),
    "stream of steps": lambda X, Y: (
        small_steps().partial_fit(X, Y).partial_fit(X, Y).partial_fit(X[:5], Y[:5])
    ),
    "stream before steps": lambda X, Y: small_steps().partial_fit(X[:9], Y[:9]),
}


def saved(name):
    """The bytes of a model's file."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "m.cca"
        MODELS[name](*data()).save(path)
        return path.read_bytes()


def parts_of(whole):
    with np.load(io.BytesIO(whole)) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("meta").tobytes()), arrays


def written(meta, arrays, **how):
    file = io.BytesIO()
    text = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    (np.savez_compressed if how.get("compressed") else np.savez)(file, meta=text, **arrays)
    return file.getvalue()


def places(tree, at=()):
    """All paths into a tree of dicts and lists."""
    yield at
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, part in items:
        yield from places(part, (*at, key))


def other_json(meta, arrays, rng):
    """One part of the JSON is junk, is gone, or has changed places with another."""
    found = [at for at in places(meta) if at]
    # Parts of a generator and of a long history are many, and alike.
    at = found[rng.integers(len(found))]
    holder = meta
    for key in at[:-1]:
        holder = holder[key]
    how = rng.integers(4)
    if how == 0:
        del holder[at[-1]]
    elif how == 1:
        source = meta
        for key in found[rng.integers(len(found))]:
            source = source[key]
        holder[at[-1]] = copy.deepcopy(source)
    else:
        holder[at[-1]] = copy.deepcopy(JUNK[rng.integers(len(JUNK))])
    return meta, arrays


def other_arrays(meta, arrays, rng):
    """One array has another shape, type or value, the name of another, or no name."""
    names = sorted(arrays)
    name = names[rng.integers(len(names))]
    m = arrays[name]
    flat = np.real(m).astype(float).ravel() if m.dtype.kind in "biufc" else np.zeros(m.size)
    if flat.size:
        flat[rng.integers(flat.size)] = [np.nan, np.inf, -1, 2, 1e300, 10**9, -(10**9)][rng.integers(7)]
    with np.errstate(invalid="ignore"):
        arrays[name] = [
            lambda: m[:-1] if m.ndim else m,
            lambda: m.T if m.ndim > 1 else m[None],
            lambda: np.zeros((0, *m.shape)),
            lambda: m.astype(complex),
            lambda: m.astype("U8"),
            lambda: np.concatenate([m, m]) if m.ndim else m,
            lambda: flat.reshape(m.shape).astype(m.dtype),
            lambda: flat.reshape(m.shape),
            lambda: arrays[names[rng.integers(len(names))]],
            lambda: m.real.astype(np.float32),
            lambda: np.array(3.0),
        ][rng.integers(11)]()
    if rng.random() < 0.1:
        del arrays[name]
    return meta, arrays


def other_bytes(whole, rng):
    """Some bytes differ, are gone, or come twice."""
    found = bytearray(whole)
    at, size = int(rng.integers(len(found))), int(rng.integers(1, 40))
    how = rng.integers(4)
    if how == 0:
        found[at] ^= 1 << int(rng.integers(8))
    elif how == 1:
        found[at : at + size] = rng.integers(0, 256, size, dtype=np.uint8).tobytes()
    elif how == 2:
        del found[at : at + size]
    else:
        found[at:at] = found[at : at + size]
    return bytes(found)


def mutated(whole, rng):
    """A file that is not as it was, and True if its bytes alone were changed."""
    if rng.random() < 0.25:
        return other_bytes(whole, rng), True
    meta, arrays = parts_of(whole)
    for _ in range(rng.integers(1, 3)):
        meta, arrays = (other_json if rng.random() < 0.6 else other_arrays)(meta, arrays, rng)
    return written(meta, arrays), False


def results(model):
    """All that a model says; it must be whole."""
    X, Y = data()
    if model.streamed:
        copy.deepcopy(model).partial_fit(X[:7], Y[:7])
    if not model.__sklearn_is_fitted__():
        return (model.n_features_in_,)
    rows = slice(0, 40)
    U, V = model.transform(X[rows], Y[rows, : model.n_features_y_])
    rho = model.canonical_correlations_
    assert np.all((rho >= 0) & (rho <= 1))
    assert U.shape == V.shape == (40, len(rho))
    return U, V, rho, model.n_iter_, model.n_passes_, model.solver_reason_, model.training_correlations_


def wrong(whole, change, path):
    """What is wrong with a mutated file, in words; None if it is refused, or the model whole."""
    content, same = change
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except ValueError as error:
            return None if str(path) in str(error) else f"an error that does not name the file: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        try:
            # Parameters may be any: what is not allowed is said when they are used.
            model.problem_and_options()
        except (ValueError, TypeError):
            return None
        try:
            found = results(model)
            model.save(path)
            load(path)
        except Exception as error:
            return f"loaded, and then {type(error).__name__}: {error}"
        if same:
            path.write_bytes(whole)
            for a, b in zip(found, results(load(path)), strict=True):
                np.testing.assert_array_equal(a, b)
    return None


@pytest.mark.parametrize("name", MODELS)
def test_mutated_model_files(name, tmp_path):
    whole, rng = saved(name), np.random.default_rng(sum(name.encode()))
    for i in range(120):
        change = mutated(whole, rng)
        assert wrong(whole, change, tmp_path / "m.cca") is None, i


def tables(X):
    """Files of numbers, by kind."""
    for kind in ("csr", "csc", "coo", "bsr", "dia", "dense", "compressed"):
        file = io.BytesIO()
        if kind in ("dense", "compressed"):
            (np.savez if kind == "dense" else np.savez_compressed)(file, X)
        else:
            sp.save_npz(file, sp.coo_array(X).asformat(kind), compressed=False)
        yield kind, file.getvalue()


def test_mutated_files_of_numbers(tmp_path, rng):
    """Any change of bytes is refused or does not matter; other parts are refused, or are a table."""
    X, path = np.round(rng.random((12, 8)) * (rng.random((12, 8)) < 0.4), 2), tmp_path / "x.npz"
    for kind, whole in tables(X):
        for i in range(150):
            same = i % 2 == 0
            if same:
                path.write_bytes(other_bytes(whole, rng))
            else:
                with np.load(io.BytesIO(whole)) as file:
                    arrays = {name: file[name] for name in file.files if name != "format" or i % 10 == 1}
                    kept = {} if i % 10 == 1 or "format" not in file else {"format": file["format"]}
                if "format" in arrays:
                    arrays["format"] = np.array([b"csr", b"csc", b"coo", b"dia", b"bsr"][rng.integers(5)])
                    other = arrays
                else:
                    _, other = other_arrays({}, arrays, rng)
                np.savez(path, **other | kept)
            try:
                found = read_table(str(path)).matrix
            except ValueError as error:
                if "x.npz" not in str(error):
                    raise
                continue
            assert found.ndim == 2
            if same:
                np.testing.assert_array_equal(dense(found), X, err_msg=f"{kind} {i}")


def tried(seed, count):
    """Print what is wrong with so many mutated files of each kind."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            whole, rng = saved(name), np.random.default_rng([seed, sum(name.encode())])
            for i in range(count):
                said = wrong(whole, mutated(whole, rng), Path(folder) / "m.cca")
                if said is not None:
                    found.setdefault((name, said[:110]), []).append(i)
    lines = [f"{len(where):4} {name}: {said}" for (name, said), where in found.items()]
    sys.stdout.write("\n".join([*sorted(lines), f"{len(found)} kinds of {count * len(MODELS)} files\n"]))


if __name__ == "__main__":
    tried(*map(int, sys.argv[1:]))
