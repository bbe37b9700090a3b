"""Model files: what they hold, and how damaged and foreign ones are refused."""

import copy
import json
import os
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_linnerud

import appgrad
from appgrad import CCA, KernelCCA, load
from appgrad.estimators.provenance import Origin
from appgrad.fitting import archive, saved_state
from appgrad.fitting.saved_state import packed, records, unpacked
from appgrad.inference.holdout import HeldOut
from appgrad.solvers.problem import Limits
from helpers import quiet


@pytest.fixture
def model(rng):
    X = pd.DataFrame(rng.standard_normal((50, 4)), columns=["a", "b", "ç", "<script>"])
    return CCA(2, ridge=(0.1, 0.2), scale=True).fit(X, rng.standard_normal((50, 3)))


def test_round_trip(model, rng, tmp_path):
    path = tmp_path / "m.cca"
    model.save(path)
    again = load(path)
    X, y = rng.standard_normal((20, 4)), rng.standard_normal((20, 3))
    frame = pd.DataFrame(X, columns=model.feature_names_in_)
    for ours, theirs in zip(again.transform(frame, y), model.transform(frame, y), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert again.get_params() == model.get_params()
    assert list(again.feature_names_in_) == ["a", "b", "ç", "<script>"]
    assert not hasattr(again, "feature_names_y_")
    for name in ("solver_", "solver_reason_", "n_iter_", "n_passes_", "history_", "n_samples_"):
        assert str(getattr(again, name)) == str(getattr(model, name))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    again.save(path)
    np.testing.assert_array_equal(load(path).x_weights_, model.x_weights_)


def test_one_dimensional_y_and_float32_survive(rng, tmp_path):
    X = rng.standard_normal((50, 4), dtype=np.float32)
    CCA(1).fit(X, X[:, 0]).save(tmp_path / "m.cca")
    again = load(tmp_path / "m.cca")
    assert again.predict(X).shape == (50,)
    assert again.transform(X).dtype == np.float32


def test_numpy_parameters_survive(rng, tmp_path):
    X, y = rng.standard_normal((50, 4)), rng.standard_normal((50, 3))
    params = {"n_components": np.int64(3), "ridge": (np.float32(0.5), np.array(0.25)), "scale": np.True_}
    CCA(**params).fit(X, y).save(tmp_path / "m.cca")
    again = load(tmp_path / "m.cca")
    assert (again.n_components, again.ridge, again.scale) == (3, (0.5, 0.25), True)
    CCA(1, ridge=np.array([0.5, 1.0])).fit(X, y).save(tmp_path / "m.cca")
    assert load(tmp_path / "m.cca").ridge == (0.5, 1.0)


def test_callbacks_are_left_out(rng, tmp_path):
    CCA(1, callback=print).set_params(callback=lambda p: None).fit(
        rng.standard_normal((20, 2)), rng.standard_normal(20)
    ).save(tmp_path / "m.cca")
    assert load(tmp_path / "m.cca").callback is None


def test_the_file_is_arrays_and_json(model, tmp_path):
    model.save(tmp_path / "m.cca")
    with np.load(tmp_path / "m.cca", allow_pickle=False) as archive:
        meta = json.loads(archive["meta"].tobytes())
        assert all(archive[name].dtype.kind in "fu" for name in archive.files)
    assert meta["format"] == "appgrad-model"
    assert meta["version"] == 2
    assert meta["library"] == appgrad.__version__


def test_truncated_anywhere(model, tmp_path):
    path = tmp_path / "m.cca"
    model.save(path)
    whole = path.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="damaged or not an appgrad model file"):
            load(path)


def test_damaged_inside(model, tmp_path):
    """Whatever byte is wrong: the one clear error, or the byte did not matter."""
    path = tmp_path / "m.cca"
    model.save(path)
    whole = path.read_bytes()
    refused = 0
    for position in range(0, len(whole), 7):
        broken = bytearray(whole)
        broken[position] ^= 0xFF
        path.write_bytes(broken)
        try:
            load(path)
        except ValueError as error:
            assert "damaged or" in str(error)  # noqa: PT017
            refused += 1
    assert refused > len(whole) / 7 / 2


TAMPERED = {
    "weights with NaN": lambda arrays, meta: arrays["x_weights_"].fill(np.nan),
    "other shapes": lambda arrays, meta: arrays.update(y_loadings_=arrays["y_loadings_"][:1]),
    "other slopes": lambda arrays, meta: arrays.update(y_slopes_=arrays["y_slopes_"][:, :1]),
    "text": lambda arrays, meta: arrays.update(x_mean_=np.array(["a"] * 4)),
    "fewer names": lambda arrays, meta: meta.update(feature_names=[["a"], None]),
    "names that are no text": lambda arrays, meta: meta.update(
        feature_names=[["a", {"b": 1}, "c", "d"], None]
    ),
    "names that are numbers": lambda arrays, meta: meta.update(feature_names=[[1, 2, 3, 4], None]),
    "version": lambda arrays, meta: meta.update(version="2"),
    "no version": lambda arrays, meta: meta.pop("version"),
    "unknown parameter": lambda arrays, meta: meta["params"].update(colour="red"),
    "no facts": lambda arrays, meta: meta.pop("facts"),
    "words for a number of rows": lambda arrays, meta: meta["facts"].update(n_samples_="many"),
    "no iterations": lambda arrays, meta: meta["facts"].update(n_iter_=[]),
    "half an iteration": lambda arrays, meta: meta["facts"].update(n_iter_=[0.5, 1]),
    "a solver that is a number": lambda arrays, meta: meta["facts"].update(solver_=3),
    "an origin that is none": lambda arrays, meta: meta.update(origin=["x"]),
    "held-out correlations of others": lambda arrays, meta: meta.update(
        origin=Origin("x", "y", "fit", tested=HeldOut(np.ones(1), "")).packed()
    ),
    "held-out correlations of 2": lambda arrays, meta: meta.update(
        origin=Origin("x", "y", "fit", tested=HeldOut(np.array([2.0, 0]), "")).packed()
    ),
    "rows below none": lambda arrays, meta: meta["facts"].update(n_samples_=-5),
    "passes that are no number": lambda arrays, meta: meta["facts"].update(n_passes_=float("nan")),
    "remarks that are a text": lambda arrays, meta: meta.update(remarks="boo"),
    "remarks that are numbers": lambda arrays, meta: meta.update(remarks=[[1, True]]),
    "an origin without words": lambda arrays, meta: meta.update(
        origin=Origin(None, "y", "fit", ("beware",)).packed()
    ),
    "held-out correlations in words": lambda arrays, meta: meta.update(
        origin=Origin("x", "y", "fit").packed()
        | {"tested": {"correlations": ["0.5", "nan"], "method": "folds"}}
    ),
    "correlations above 1": lambda arrays, meta: arrays["canonical_correlations_"].fill(1.5),
    "correlations below 0": lambda arrays, meta: arrays["canonical_correlations_"].fill(-0.1),
    "correlations of scores above 1": lambda arrays, meta: arrays["training_correlations_"].fill(1.01),
    "negative bounds": lambda arrays, meta: arrays["error_bounds_"].fill(-1),
    "negative standard deviations": lambda arrays, meta: arrays["x_std_"].fill(-1),
    "missing array": lambda arrays, meta: arrays.pop("x_std_"),
}


def altered(model, path, change):
    """Save a model, change its arrays and metadata, and write them again."""
    model.save(path)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    meta = json.loads(arrays.pop("meta").tobytes())
    change(arrays, meta)
    with open(path, "wb") as file:
        np.savez(file, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays)


def test_files_without_remarks_and_origin_are_read(model, tmp_path):
    """As they were before either was kept."""
    path = tmp_path / "m.cca"
    altered(model, path, lambda arrays, meta: (meta.pop("remarks"), meta.pop("origin")))
    assert load(path).remarks == ()
    load(path).save(path)


def test_texts_of_a_file_are_one_plain_line(model, tmp_path):
    hostile = "a\nerror: fake \x1b[31mred" + "x" * 10**6
    model.record_provenance(Origin(hostile, "y", "fit", (hostile,), HeldOut(np.zeros(2), hostile)))
    path = tmp_path / "m.cca"

    def change(arrays, meta):
        meta["remarks"] = [[hostile, True]]
        meta["facts"]["solver_reason_"] = hostile

    altered(model, path, change)
    found = load(path)
    texts = (
        found.provenance.x,
        found.provenance.remarks[0],
        found.provenance.tested.method,
        found.remarks[0].text,
        found.solver_reason_,
    )
    for text in texts:
        assert len(text) < 3000
        assert text.isprintable()


@pytest.mark.parametrize("how", TAMPERED)
def test_tampered(how, model, tmp_path):
    path = tmp_path / "m.cca"
    altered(model, path, TAMPERED[how])
    with pytest.raises(ValueError, match="damaged or not an appgrad model file"):
        load(path)


def _without_gamma(arrays, meta):
    del meta["learned"]["fields"]["maps"]["tuple"][0]["fields"]["kernel"]["fields"]["gamma"]


def _in_depth(arrays, meta):
    name = meta["learned"]["fields"]["maps"]["tuple"][0]["fields"]["rows"]["array"]
    arrays[name] = arrays[name][:, :, None]


@pytest.mark.parametrize("change", [_without_gamma, _in_depth])
def test_kernels_lack_nothing(change, rng, tmp_path):
    """A field that has a default elsewhere would change the scores in silence."""
    X, path = rng.standard_normal((30, 3)), tmp_path / "k.cca"
    altered(quiet(KernelCCA(1, ridge=0.1, gamma=0.3), X, X[:, :1]), path, change)
    with pytest.raises(ValueError, match="damaged or not an appgrad model file"):
        load(path)


@pytest.mark.parametrize("name", [None, 3, 0.5, True, {"a": 1}, ["CCA"], "PCA", "os.system", "x" * 10**5])
def test_unknown_estimators_are_refused(name, model, tmp_path):
    path = tmp_path / "m.cca"
    altered(model, path, lambda arrays, meta: meta.update(estimator=name))
    with pytest.raises(
        ValueError, match=r"m\.cca holds a .* which this version of appgrad cannot read"
    ) as caught:
        load(path)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["zeros", "x_weights_"])
def test_bombs_are_refused_whether_needed_or_not(name, model, tmp_path):
    """A megabyte that would unfold to a gigabyte is not unfolded."""
    path = tmp_path / "m.cca"
    model.save(path)
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files} | {name: np.zeros((2**17, 2))}
    np.savez_compressed(tmp_path / "b.npz", **arrays)
    with pytest.raises(
        ValueError, match=r"b\.npz is damaged or not an appgrad model file \(its arrays are compr"
    ):
        load(tmp_path / "b.npz")


def test_arrays_that_share_their_bytes_are_refused(model, tmp_path):
    """Members of a zip may claim the same bytes many times over."""
    path = tmp_path / "m.cca"
    model.save(path)
    with np.load(path) as file, zipfile.ZipFile(path) as whole:
        assert file.files
        last = whole.infolist()[-1]
    with zipfile.ZipFile(path, "a") as archive:
        for i in range(2000):
            again = copy.copy(last)
            again.filename = f"again{i}.npy"
            archive.filelist.append(again)
        archive._didModify = True
    with pytest.raises(ValueError, match="damaged or not an appgrad model file"):
        load(path)


def test_deep_json_is_refused(model, tmp_path):
    path = tmp_path / "m.cca"
    deep = b'{"format": "appgrad-model", "version": 2, "x": ' + b"[" * 10**5 + b"]" * 10**5 + b"}"
    with open(path, "wb") as file:
        np.savez(file, meta=np.frombuffer(deep, np.uint8))
    with pytest.raises(ValueError, match="damaged or not an appgrad model file"):
        load(path)


class Bomb:
    def __reduce__(self):
        return os._exit, (3,)


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "m.cca"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="not an appgrad model file"):
        load(path)
    np.savez(path.with_suffix(".npz"), meta=np.array([Bomb()], dtype=object))
    with pytest.raises(ValueError, match="not an appgrad model file"):
        load(path.with_suffix(".npz"))


def test_foreign_files(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, a=np.ones(3))
    with pytest.raises(ValueError, match="not an appgrad model file"):
        load(path)
    np.save(tmp_path / "a.npy", np.ones(3))
    with pytest.raises(ValueError, match="not an appgrad model file"):
        load(tmp_path / "a.npy")
    path.write_text("hello")
    with pytest.raises(ValueError, match="not an appgrad model file"):
        load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ValueError, match="not an appgrad model file"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.cca")
    for meta in ([], {"format": "other"}, {"format": "appgrad-model"}):
        with open(path, "wb") as file:
            np.savez(file, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8))
        with pytest.raises(ValueError, match="not an appgrad model file"):
            load(path)


def test_newer_file(model, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "VERSION", 3)
    model.save(tmp_path / "m.cca")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"model format 3.*reads up to 2: upgrade appgrad"):
        load(tmp_path / "m.cca")


def test_states_of_another_version_are_refused(monkeypatch):
    """Fields have names: those that are unknown or missing are refused, those added later are not."""
    limits = Limits(3, 1.0, None, 2.0)
    spec, arrays = packed(limits)
    assert spec == {"record": "limits/1", "fields": limits._asdict()}
    assert unpacked(spec, arrays) == limits
    del spec["fields"]["flops"]
    with pytest.raises(ValueError, match="limits/1 lacks flops"):
        unpacked(spec, arrays)
    monkeypatch.setitem(saved_state.ADDED, "limits/1", ("flops",))
    assert unpacked(spec, arrays) == limits._replace(flops=None)
    spec["fields"]["colour"] = 3
    with pytest.raises(ValueError, match=r"fields of limits/1 are not these: colour"):
        unpacked(spec, arrays)
    with pytest.raises(ValueError, match=r"moments/1 lacks views"):
        unpacked({"record": "moments/1", "fields": {"n": 3}}, {})
    with pytest.raises(ValueError, match=r"no record 'limits/2'"):
        unpacked(spec | {"record": "limits/2"}, arrays)


def test_every_record_has_one_tag():
    assert len(set(records().values())) == len(records())


@pytest.mark.parametrize("version", [None, "0.1.0"])
def test_pickles_of_another_version_are_refused(model, version):
    state = model.__getstate__()
    assert state.pop("_appgrad_version") == appgrad.__version__
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.x_weights_, model.x_weights_)
    if version is not None:
        state["_appgrad_version"] = version
    with pytest.raises(ValueError, match=r"was pickled by .*appgrad.*save.*appgrad\.load"):
        CCA().__setstate__(state)


def test_a_held_out_check_is_kept(model, tmp_path):
    model.record_provenance(Origin("x", "y", "fit", ("beware",), HeldOut(np.array([0.3, np.nan]), "folds")))
    model.save(tmp_path / "m.cca")
    again = load(tmp_path / "m.cca").provenance
    assert again[:4] == ("x", "y", "fit", ("beware",))
    np.testing.assert_array_equal(again.tested.correlations, [0.3, np.nan])
    assert again.tested.method == "folds"


def test_a_refitted_model_does_not_claim_the_files_of_another(tmp_path):
    X, y = load_linnerud(return_X_y=True)
    model = CCA(2).fit(X, y)
    model.record_provenance(Origin("x.npy", "y.npy", "appgrad fit x.npy y.npy", ("beware",)))
    model.save(tmp_path / "m.cca")
    again = load(tmp_path / "m.cca")
    assert again.provenance == model.provenance
    again.fit(X, y).save(tmp_path / "m.cca")
    assert load(tmp_path / "m.cca").provenance is None


@pytest.mark.filterwarnings("ignore:partial_fit starts a new model")
def test_a_stream_does_not_claim_the_files_of_a_fit(model, tmp_path):
    X, y = load_linnerud(return_X_y=True)
    model = CCA(2).fit(X, y)
    model.record_provenance(Origin("x.npy", "y.npy", "fit", tested=HeldOut(np.zeros(2), "folds")))
    model.save(tmp_path / "m.cca")
    again = load(tmp_path / "m.cca").partial_fit(X, y)
    assert again.provenance is None
    again.save(tmp_path / "s.cca")
    assert load(tmp_path / "s.cca").provenance is None
