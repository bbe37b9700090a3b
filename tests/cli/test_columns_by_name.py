"""A model picks its columns by name from files, and keys of rows go with its scores."""

import csv
import json
import os
from functools import partial

import numpy as np
import pytest

from appgrad import CCA, load, open_views
from appgrad.data.files.keys import keys_of
from helpers import arrays

pd = pytest.importorskip("pandas")

NAMES = [f"n{j}" for j in range(5)], [f"m{j}" for j in range(3)]


@pytest.fixture
def tables(folder, rng, run):
    """A model, and tables that have its columns among others, in another order."""
    X, Y = arrays(folder)
    keys = [f"c, {i:04}" for i in range(400)]
    both = pd.DataFrame(np.c_[X, Y], columns=[*NAMES[0], *NAMES[1]])
    both["web_1"], both["customer_id"], both["number"] = rng.random(400), keys, range(7, 407)
    both = both[["customer_id", *rng.permutation([c for c in both if c != "customer_id"])]]
    both.to_csv(folder / "both.csv", index=False)
    both.to_csv(folder / "indexed.csv")
    both.to_csv(folder / "both.tsv.gz", index=False, sep="\t")
    both.to_parquet(folder / "both.parquet")
    for i in range(12):
        (folder / "hive" / f"day={i}").mkdir(parents=True)
        both[i * 40 : (i + 1) * 40].to_parquet(folder / "hive" / f"day={i}" / "part-0.parquet")
    columns = ["both.parquet::columns=" + ",".join(names) for names in NAMES]
    run("fit", *columns, "-o", "m.cca", "--holdout", 0, cwd=folder)
    return folder, load(folder / "m.cca"), X, Y, keys


@pytest.mark.parametrize("kind", ["both.csv", "indexed.csv", "both.tsv.gz", "both.parquet", "hive"])
def test_any_table_that_has_the_columns(tables, run, kind, recwarn):
    folder, model, X, Y, keys = tables
    U, V = model.transform(pd.DataFrame(X, columns=NAMES[0]), pd.DataFrame(Y, columns=NAMES[1]))
    run("transform", "m.cca", kind, kind, "-o", "s.npz", "--id", "customer_id", cwd=folder)
    with np.load(folder / "s.npz") as found:
        np.testing.assert_allclose(found["x_scores"], U, atol=1e-9)
        np.testing.assert_allclose(found["y_scores"], V, atol=1e-9)
        assert found["customer_id"].tolist() == keys
    run("transform", "m.cca", "--y", kind, "-o", "v.npy", cwd=folder)
    np.testing.assert_allclose(np.load(folder / "v.npy"), V, atol=1e-9)
    record = json.loads(run("score", "m.cca", kind, kind, "--json", cwd=folder))
    np.testing.assert_allclose(record["correlations"], model.training_correlations_, atol=1e-6)
    run("report", "m.cca", kind, kind, "-o", "r.html", cwd=folder)
    views = open_views(folder / kind, folder / kind, model=model)
    assert views.widths == (5, 3)
    assert model.score(views) == pytest.approx(record["score"])


def test_views_of_files_with_more_columns(tables):
    """Opened without the model: it picks them too, as long as all columns hold numbers."""
    folder, model, *_ = tables
    path = f"{folder / 'both.parquet'}::columns=numeric"
    views = open_views(path, path)
    assert views.widths == (10, 10)
    np.testing.assert_allclose(model.score(views), np.mean(model.training_correlations_), atol=1e-6)
    for found, same in zip(
        model.transform(views), model.transform(open_views(path, path, model=model)), strict=True
    ):
        np.testing.assert_allclose(found, same)


@pytest.mark.filterwarnings("ignore:the model has column names")
def test_a_missing_column_is_named(tables, run):
    folder, *_ = tables
    for kind in ("csv", "parquet"):
        frame = pd.read_parquet(folder / "both.parquet").drop(columns=["n3"])
        getattr(frame, f"to_{kind}")(folder / f"less.{kind}")
        said = run("transform", "m.cca", f"less.{kind}", "-o", "s.npz", code=1, cwd=folder)
        assert "it has no column 'n3', which the model was fitted to; it has " in said
        said = run("score", "m.cca", f"less.{kind}", f"less.{kind}", code=1, cwd=folder)
        assert "no column 'n3'" in said
    said = run("transform", "m.cca", "both.csv", "-o", "s.csv", "--id", "nobody", code=1, cwd=folder)
    assert "there is no column 'nobody' for --id: both.csv has customer_id, " in said
    assert "x.npy has no column names" in run(
        "transform", "m.cca", "x.npy", "-o", "s.csv", "--id", "nobody", code=1, cwd=folder
    )
    assert not (folder / "s.csv").exists()


def test_keys_in_every_kind_of_file(tables, run):
    folder, model, X, _, keys = tables
    U = model.transform(pd.DataFrame(X, columns=NAMES[0]))
    for source in ("both.csv", "both.parquet", "hive"):
        run("transform", "m.cca", source, "-o", "s.csv", "--id", "customer_id", cwd=folder)
        with open(folder / "s.csv", newline="") as file:
            header, *rows = csv.reader(file)
        assert header == ["customer_id", "x_scores_1", "x_scores_2"]
        assert [row[0] for row in rows] == keys
        np.testing.assert_allclose(np.array([row[1:] for row in rows], float), U, atol=1e-9)
        run("transform", "m.cca", source, "-o", "s.parquet", "--id", "number", cwd=folder)
        table = pd.read_parquet(folder / "s.parquet")
        assert table["number"].tolist() == list(range(7, 407))
        np.testing.assert_allclose(table["x_scores_2"], U[:, 1], atol=1e-9)


def test_keys_of_other_types(tables, run):
    """Zeros in front stay, dates and missing keys are written."""
    folder, *_ = tables
    frame = pd.read_parquet(folder / "both.parquet")
    frame["code"] = [f"{i:05}" for i in range(400)]
    frame["day"] = pd.date_range("2026-01-01", periods=400)
    frame["gap"] = [None, *range(1, 400)]
    frame["gap"] = frame["gap"].astype("Int64")
    frame.to_parquet(folder / "k.parquet")
    frame.to_csv(folder / "k.csv", index=False)
    for source in ("k.csv", "k.parquet"):
        for key, first in (("code", "00000"), ("day", "2026-01-01"), ("gap", "")):
            for output in ("s.csv", "s.npz", "s.parquet"):
                run("transform", "m.cca", source, "-o", output, "--id", key, cwd=folder)
            with np.load(folder / "s.npz") as found:
                assert str(found[key][0])[:10] == first
            assert (folder / "s.csv").read_text().splitlines()[1].startswith(f"{first}")
            assert str(pd.read_parquet(folder / "s.parquet")[key][0])[:10] == first


def test_keys_that_differ_between_the_views(tables, run):
    folder, *_ = tables
    frame = pd.read_parquet(folder / "both.parquet")
    frame.iloc[::-1].to_csv(folder / "back.csv", index=False)
    said = run(
        "transform", "m.cca", "both.csv", "back.csv", "-o", "s.csv", "--id", "number", code=1, cwd=folder
    )
    assert "row 0 has number 7 in both.csv and 406 in back.csv: rows must be paired" in said


def test_keys_are_compared_as_numbers(tables, run):
    """An id is the same id as 7, 7.0 or text, in files with integers of different sizes."""
    folder, *_ = tables
    frame = pd.read_parquet(folder / "both.parquet")
    (folder / "parts").mkdir()
    for i, kind in enumerate((np.int32, np.int64)):
        part = frame.iloc[i * 200 : (i + 1) * 200]
        part.assign(number=part["number"].astype(kind)).to_parquet(folder / "parts" / f"p-{i}.parquet")
    frame.assign(number=frame["number"].astype(float)).to_parquet(folder / "floats.parquet")
    frame.assign(number=frame["number"].astype(float)).to_csv(folder / "floats.csv", index=False)
    for source in ("both.csv", "floats.csv", "floats.parquet", "parts"):
        run("transform", "m.cca", "parts", source, "-o", "s.npz", "--id", "number", cwd=folder)
        with np.load(folder / "s.npz") as found:
            assert found["number"].dtype == np.int64
            assert found["number"].tolist() == list(range(7, 407))
    run("transform", "m.cca", "floats.csv", "both.csv", "-o", "s.npz", "--id", "number", cwd=folder)


def test_keys_of_parts_of_different_kinds(tables):
    folder, *_ = tables
    (folder / "parts").mkdir()
    for i, keys in enumerate(([1, 2], [2.0, None], ["u7", "u8"])):
        pd.DataFrame({"id": keys}).to_parquet(folder / "parts" / f"p-{i}.parquet")
    assert keys_of([str(folder / "parts")], "id").tolist() == ["1", "2", "2", "", "u7", "u8"]


def test_scores_replace_what_a_link_points_to(tables, run):
    """The link stays, the file keeps its permissions, and nothing else is written to."""
    folder, *_ = tables
    (folder / "there").mkdir()
    for ending in ("csv", "npz", "npy", "parquet"):
        real, link = folder / "there" / f"s.{ending}", folder / f"s.{ending}"
        real.write_text("old")
        real.chmod(0o600)
        link.symlink_to(real)
        trap = folder / f".s.{os.getpid()}.{ending}"
        trap.symlink_to(folder / "mine.txt")
        run("transform", "m.cca", "both.csv", "-o", link.name, cwd=folder)
        assert link.is_symlink()
        assert real.stat().st_mode & 0o777 == 0o600
        assert real.stat().st_size > 400 * 8
        assert trap.is_symlink()
        assert not (folder / "mine.txt").exists()
    assert sorted(path.name for path in (folder / "there").iterdir()) == [
        "s.csv",
        "s.npy",
        "s.npz",
        "s.parquet",
    ]


def test_npy_holds_one_view(tables, run):
    folder, *_ = tables
    for more in (("both.csv",), ("--id", "number")):
        said = run("transform", "m.cca", "both.csv", *more, "-o", "s.npy", code=1, cwd=folder)
        assert "s.npy: .npy holds one array; for " in said


def test_frames_keep_the_rule_of_scikit_learn(tables):
    """Names must match; the error says how to choose them."""
    _, model, X, Y, _ = tables
    x, y = pd.DataFrame(X, columns=NAMES[0]), pd.DataFrame(Y, columns=NAMES[1])
    hint = r"choose them by X\[model\.feature_names_in_\]"
    for wrong in (x.assign(more=1.0), x[NAMES[0][::-1]]):
        with pytest.raises(ValueError, match=hint):
            model.transform(wrong)
        with pytest.raises(ValueError, match=hint):
            model.score(wrong, y)
        np.testing.assert_array_equal(model.transform(wrong[model.feature_names_in_]), model.transform(x))
    for wrong in (y.assign(more=1.0), y[NAMES[1][::-1]]):
        with pytest.raises(ValueError, match=r"choose them by y\[model\.feature_names_y_\]"):
            model.transform(x, wrong)
    with pytest.raises(ValueError, match=r"feature names should match"):
        model.transform(x.rename(columns={"n0": "other"}))
    missing = r"is expecting 5 features as input\. Feature names seen at fit time, yet now missing: n4$"
    with pytest.raises(ValueError, match=r"X has 4 features, but CCA " + missing):
        model.transform(x.iloc[:, :4])
    with pytest.raises(ValueError, match=r"X has 6 features, but CCA " + missing):
        model.transform(x.rename(columns={"n4": "other"}).assign(more=1.0))
    # As many as the other view has: names tell that the views are not swapped.
    with pytest.raises(ValueError, match=r"as input\. Feature names .* missing: n0, n1$"):
        model.transform(x.drop(columns=["n0", "n1"]))
    with pytest.raises(ValueError, match=r"are the two views swapped\?$"):
        model.transform(y)
    with pytest.raises(ValueError, match=rf"now missing: {NAMES[1][1]}$"):
        model.transform(y=y.drop(columns=NAMES[1][1]))
    with pytest.raises(ValueError, match=r"expecting 5 features as input$"):
        model.transform(X[:, :4])


def test_names_of_numbers_are_a_header_to_their_model(tmp_path, run):
    """Even where the first line would be taken for a row."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (40, 2))
    rows[1] = 0, 1
    text = "\n".join(",".join(map(str, row)) for row in rows)
    (tmp_path / "quoted.csv").write_text('"0","1"\n' + text)
    (tmp_path / "plain.csv").write_text("0,1\n" + text)
    np.save(tmp_path / "y.npy", rows[:, :1] + rng.random((40, 1)))
    run("fit", "quoted.csv", "y.npy", "-k", 1, "-o", "m.cca", "--holdout", 0, cwd=tmp_path)
    assert json.loads(run("score", "m.cca", "plain.csv", "y.npy", "--json", cwd=tmp_path))["n_samples"] == 40


def test_keys_beside_names_of_numbers(tmp_path, run):
    """The line that is a header to the model is one to `--id`: text ids and years above counts."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 5000, (40, 3))
    text = "\n".join(f"u{i:02},{','.join(map(str, row))}" for i, row in enumerate(rows))
    (tmp_path / "f.csv").write_text("id,2000,2003,2011\n" + text)
    np.savetxt(tmp_path / "y.csv", rows[:, :2] + rng.random((40, 2)), delimiter=",")
    run("fit", "f.csv::header=yes::columns=1-3", "y.csv", "-k", 1, "-o", "f.cca", cwd=tmp_path)
    run("fit", "y.csv", "f.csv::header=yes::columns=1-3", "-k", 1, "-o", "g.cca", cwd=tmp_path)
    for command in (("f.cca", "f.csv"), ("f.cca", "f.csv", "y.csv"), ("g.cca", "--y", "f.csv")):
        run("transform", *command, "--id", "id", "-o", "s.csv", cwd=tmp_path)
        assert pd.read_csv(tmp_path / "s.csv")["id"].tolist() == [f"u{i:02}" for i in range(40)]


def test_columns_by_pattern_and_with_odd_names(tmp_path):
    frame = pd.DataFrame(
        np.arange(40.0).reshape(5, 8), columns=["web_a", "x", "web_b", "a::b", "c,d", "w*", "1", "z[0]"]
    )
    frame["id"] = list("abcde")
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    from appgrad.data.files.readers import read_table

    for path in (tmp_path / "x.csv", tmp_path / "x.parquet"):
        for asked, names in {
            "web_*": ["web_a", "web_b"],
            "x,web_?": ["x", "web_a", "web_b"],
            "web_b,web_*": ["web_b", "web_a"],
            '"a::b","c,d"': ["a::b", "c,d"],
            "w*": ["w*"],
            "1": ["1"],
            "z[0]": ["z[0]"],
            "numeric": list(frame)[:-1],
            "[wx]*": ["web_a", "x", "web_b", "w*"],
        }.items():
            table = read_table(f"{path}::columns={asked}")
            assert list(table.names) == names
            np.testing.assert_array_equal(table.matrix, frame[names])
        with pytest.raises(ValueError, match=r"there is no column 'shop_\*'"):
            read_table(f"{path}::columns=shop_*")


def test_columns_taken_by_position_are_said(tables):
    """Unless the user chose them, or said that there is no header."""
    from appgrad.data.cluster.files import opened_by
    from appgrad.data.cluster.protocol import Here
    from appgrad.data.sources import columns_of

    folder, model, X, Y, _ = tables
    np.savetxt(folder / "bare.csv", X, delimiter=",")
    np.savez(folder / "y.npz", Y)
    for x in ("x.npy", "bare.csv"):
        for opened in (
            partial(open_views, model=model),
            partial(opened_by, Here(), wanted=columns_of(model)),
        ):
            with pytest.warns(UserWarning, match="by position") as said:
                opened(str(folder / x), str(folder / "y.npz"))
            assert [str(warning.message) for warning in said] == [
                f"the model has column names, {folder / name} has none: its columns are taken by position"
                for name in (x, "y.npz")
            ]
    chosen = f"{folder}/y.npz::columns=0-2"
    for x in ("x.npy::columns=0-4", "bare.csv::header=no"):
        assert open_views(f"{folder}/{x}", chosen, model=model).n_samples == 400
        assert opened_by(Here(), f"{folder}/{x}", chosen, columns_of(model)).n_samples == 400


def test_a_cluster_picks_columns_by_name(tables):
    """In one process: a cluster of one worker."""
    from appgrad.data.cluster.files import opened_by
    from appgrad.data.cluster.protocol import Here
    from appgrad.data.sources import columns_of

    folder, model, *_ = tables
    for kind in ("hive", "both.csv"):
        views = opened_by(Here(), str(folder / kind), str(folder / kind), columns_of(model))
        assert model.score(views) == pytest.approx(np.mean(model.training_correlations_), abs=1e-6)
        assert CCA(2).fit(views).canonical_correlations_ == pytest.approx(model.canonical_correlations_)
