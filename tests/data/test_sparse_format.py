"""Broken sparse matrices are refused, in memory and in files: nothing past the ends is ever read."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from appgrad import CCA
from appgrad.data.files.readers import read_table
from appgrad.data.inputs import as_matrix
from appgrad.data.sparse_format import FORMATS
from helpers import refuse
from naive import stored_entries

PARTS = {
    **dict.fromkeys(("csr", "csc", "bsr"), ("indices", "indptr")),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}
VALUES = st.one_of(st.integers(-3, 15), st.sampled_from([10**6, 2**31 - 1, -(2**31)]))


def parts_of(kind, rng, rows=12, columns=8):
    """The arrays of a sparse matrix as `scipy.sparse.save_npz` names them."""
    X = np.round(rng.random((rows, columns)) * (rng.random((rows, columns)) < 0.4), 3)
    m = sp.coo_array(X).asformat(kind)
    if kind == "bsr":
        m = m.tobsr((2, 2))
    parts = {name: np.array(getattr(m, name)) for name in ("data", *PARTS[kind])}
    return X, parts | {"shape": np.array(m.shape), "format": np.array(kind.encode())}


def by_hand(kind, parts):
    """A matrix in memory of arrays that nobody has checked."""
    m = getattr(sp, f"{kind}_array")(tuple(parts["shape"]))
    m.data = parts["data"]
    if kind == "coo":
        m.coords = parts["row"], parts["col"]
    else:
        for name in PARTS[kind]:
            setattr(m, name, parts[name])
    return m


def numbers_or_refusal(read):
    try:
        return read().toarray()
    except ValueError as error:
        if "broken sparse matrix" not in str(error):
            raise
        return None


def same(found, expected):
    assert (found is None) == (expected is None)
    if found is not None:
        np.testing.assert_allclose(found, expected)


@given(kind=st.sampled_from(list(PARTS)), seed=st.integers(0, 10**6), value=VALUES, data=st.data())
def test_any_index_that_is_changed_is_refused_or_means_what_it_says(
    kind, seed, value, data, tmp_path_factory
):
    _, parts = parts_of(kind, np.random.default_rng(seed))
    name = data.draw(st.sampled_from(PARTS[kind]))
    where = data.draw(st.integers(0, max(0, len(parts[name]) - 1)))
    if len(parts[name]):
        parts[name][where] = value
    expected = stored_entries(kind, parts)
    found = numbers_or_refusal(lambda: as_matrix(by_hand(kind, parts), "X"))
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    np.savez(path, **parts)
    in_file = numbers_or_refusal(lambda: read_table(str(path)).matrix)
    same(found, expected)
    # Behind the last entry there may be spare room in memory, in files there is none.
    spare = "indptr" in parts and parts["indptr"][-1] < len(parts["indices"])
    same(in_file, None if spare else expected)


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("change", ["shorter", "longer", "flat", "float", "missing", "negative", "huge"])
def test_parts_that_do_not_fit_are_refused(kind, change, tmp_path):
    _, parts = parts_of(kind, np.random.default_rng(0))
    for name in ("data", "shape", *PARTS[kind]):
        part, changed = parts[name], dict(parts)
        if change in ("negative", "huge") and name != "shape":
            continue
        changed[name] = {
            "shorter": part[:-1],
            "longer": np.concatenate([part, part[-1:]]),
            "flat": part[None],
            "float": part.astype(complex if name == "data" else float),
            "missing": None,
            "negative": -part,
            "huge": part.astype(float).astype(np.int64) * 10**12,
        }[change]
        path = tmp_path / "x.npz"
        np.savez(path, **{key: value for key, value in changed.items() if value is not None})
        with pytest.raises(ValueError, match=r"x\.npz cannot be read as \.npz: |x\.npz holds|x\.npz has "):
            read_table(str(path))


def test_formats_of_files(tmp_path):
    _, parts = parts_of("csr", np.random.default_rng(0))
    for kind in (b"xyz", "lil", 3, np.array([b"csr"])):
        np.savez(tmp_path / "x.npz", **parts | {"format": np.array(kind)})
        refuse(tmp_path / "x.npz", "it holds a sparse matrix of the format")


@pytest.mark.parametrize("dtype", ["<i4", ">i4", ">i8", "u1", "<u2", "<u4", "<u8", "i1"])
@pytest.mark.parametrize("values", ["<f8", ">f8", "<f4", "<f2", ">i2", "?", "u1"])
@pytest.mark.parametrize("kind", PARTS)
def test_all_types_of_numbers_are_read(kind, dtype, values, tmp_path):
    X, parts = parts_of(kind, np.random.default_rng(1))
    unsigned = kind == "dia" and "u" in dtype
    for name in PARTS[kind] if not unsigned else ():
        parts[name] = parts[name].astype(dtype)
    parts["data"] = parts["data"].astype(values)
    np.savez(tmp_path / "x.npz", **parts)
    found = read_table(str(tmp_path / "x.npz")).matrix
    np.testing.assert_array_equal(found.toarray(), X.astype(values).astype(found.dtype))


def broken_lil(m):
    m.rows[3] = [99]
    m.data[3] = [1.0]


def uneven_lil(m):
    m.rows[3] = [1, 2]
    m.data[3] = [1.0]


def broken_dok(m):
    m._dict[(2, 10**7)] = 1.0


@pytest.mark.parametrize(("kind", "damage"), [("lil", broken_lil), ("lil", uneven_lil), ("dok", broken_dok)])
def test_lists_and_dictionaries(kind, damage):
    X, _ = parts_of("csr", np.random.default_rng(2))
    m = sp.csr_array(X).asformat(kind)
    np.testing.assert_array_equal(as_matrix(m, "X").toarray(), X)
    damage(m)
    with pytest.raises(ValueError, match=rf"X is a broken sparse matrix of 12 x 8 \({kind}\)"):
        as_matrix(m, "X")


def test_all_formats_of_scipy_are_known():
    assert set(FORMATS) == {"csr", "csc", "bsr", "coo", "dia", "lil", "dok"}


def test_spare_room_is_no_damage_in_memory():
    """scipy leaves room behind the last entry; what stands there does not count."""
    X, parts = parts_of("csr", np.random.default_rng(3))
    for name in ("data", "indices"):
        parts[name] = np.append(parts[name], parts[name].dtype.type(99))
    m = by_hand("csr", parts)
    np.testing.assert_array_equal(as_matrix(m, "X").toarray(), X)
    assert len(m.indices) == len(parts["indices"])


def test_every_method_refuses_them(rng):
    """Also in the second view, in new rows, and in batches of a stream."""
    X, Y = sp.random_array((40, 6), density=0.5, rng=rng, format="csr"), rng.standard_normal((40, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CCA(1).fit(X, Y)
    bad = X.copy()
    bad.indices[5] = 6
    for call in (
        lambda: CCA(1).fit(bad, Y),
        lambda: CCA(1).fit(Y, bad),
        lambda: CCA(1).partial_fit(bad, Y),
        lambda: model.transform(bad),
        lambda: model.score(bad, Y),
        lambda: model.predict(bad),
    ):
        with pytest.raises(ValueError, match=r"is a broken sparse matrix of 40 x 6 \(csr\): an index is 6"):
            call()
