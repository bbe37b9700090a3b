"""Tables of R and pandas whose rows have labels: they are compared, and go with the scores."""

import csv
import json

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore:.*taken as row labels")


@pytest.fixture
def tables(rng, tmp_path, run):
    """Genes and metabolites of the same 60 samples, as pandas and R write them, and a model."""
    ids = [f"TCGA-{i:02}" for i in rng.permutation(60)]
    genes = pd.DataFrame(rng.standard_normal((60, 3)), index=ids, columns=["TP53", "MYC", "KRAS"])
    other = pd.DataFrame(
        genes.to_numpy()[:, :2] + rng.random((60, 2)), index=ids, columns=["glucose", "lactate"]
    )
    genes.to_csv(tmp_path / "genes.csv")
    genes.to_parquet(tmp_path / "genes.parquet")
    other.to_csv(tmp_path / "met.csv")
    other[::-1].to_csv(tmp_path / "shuffled.csv")
    other.reset_index(drop=True).to_csv(tmp_path / "counted.csv")
    lines = [
        f'"{label}",' + ",".join(map(str, row)) for label, row in zip(ids, other.to_numpy(), strict=True)
    ]
    (tmp_path / "R.csv").write_text("\n".join(['"glucose","lactate"', *lines]))
    run("fit", "genes.csv", "met.csv", "-k", 1, "-o", "m.cca", "--holdout", 0, cwd=tmp_path)
    return tmp_path, ids


def test_every_command_refuses_another_order(tables, run):
    folder, ids = tables
    for genes in ("genes.csv", "genes.parquet"):
        commands = [
            ("fit", genes, "shuffled.csv", "-k", 1),
            ("score", "m.cca", genes, "shuffled.csv"),
            ("transform", "m.cca", genes, "shuffled.csv", "-o", "s.csv"),
            ("report", "m.cca", genes, "shuffled.csv", "-o", "r.html"),
            ("plan", genes, "shuffled.csv", "-k", 1),
        ]
        for command in commands:
            said = run(*command, code=1, cwd=folder)
            assert (
                f"rows of {genes} and shuffled.csv have different labels: they are in another order (" in said
            )
            assert f"row 0 is '{ids[0]}' in {genes}, '{ids[-1]}' in shuffled.csv); bring both" in said
    free = json.loads(
        run("score", "m.cca", "genes.csv::row-labels=any", "shuffled.csv", "--json", cwd=folder)
    )
    assert free["n_samples"] == 60


@pytest.mark.parametrize("y", ["met.csv", "R.csv", "counted.csv"])
@pytest.mark.parametrize("x", ["genes.csv", "genes.parquet"])
def test_row_labels_go_with_the_scores(x, y, tables, run):
    folder, ids = tables
    run("transform", "m.cca", x, y, "-o", "s.csv", "--id", "row-labels", cwd=folder)
    with open(folder / "s.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["row-labels", "x_scores_1", "y_scores_1"]
    assert [row[0] for row in rows] == ids
    for ending in ("npz", "parquet"):
        run("transform", "m.cca", "--y", y, "-o", f"s.{ending}", "--id", "row-labels", cwd=folder)
        read = np.load if ending == "npz" else pd.read_parquet
        expected = list(range(60)) if y == "counted.csv" else ids
        assert read(folder / f"s.{ending}")["row-labels"].tolist() == expected


def test_row_labels_of_one_view_that_differ_from_the_other(tables, run):
    folder, ids = tables
    sources = "genes.csv", "shuffled.csv::row-labels=any"
    run("transform", "m.cca", *sources, "-o", "s.npz", "--id", "row-labels", cwd=folder)
    with np.load(folder / "s.npz") as found:
        assert found["row-labels"].tolist() == ids
    run("transform", "m.cca", "genes.csv", "-o", "s.npz", "--id", "", cwd=folder)
    with np.load(folder / "s.npz") as found:
        assert found["row-labels"].tolist() == ids


def test_a_range_of_parquet_goes_with_the_scores(tables, run):
    """Unless it only counts rows, in every file of a folder too, and the other view has names."""
    folder, ids = tables
    genes = pd.read_parquet(folder / "genes.parquet")
    genes.set_axis(pd.RangeIndex(100, 160)).to_parquet(folder / "range.parquet")
    run("transform", "m.cca", "range.parquet", "-o", "s.npz", "--id", "row-labels", cwd=folder)
    with np.load(folder / "s.npz") as found:
        assert found["row-labels"].tolist() == list(range(100, 160))
    (folder / "parts").mkdir()
    for i in range(2):
        part = genes[i * 30 : i * 30 + 30].reset_index(drop=True)
        part.to_parquet(folder / "parts" / f"{i}.parquet")
    run("transform", "m.cca", "parts", "met.csv", "-o", "s.npz", "--id", "row-labels", cwd=folder)
    with np.load(folder / "s.npz") as found:
        assert found["row-labels"].tolist() == ids


def test_times_with_a_zone_as_keys(tables, run):
    """A column of one table and the index of a parquet file keep their zone."""
    folder, _ = tables
    times = pd.date_range("2024-10-26", periods=60, freq="h", tz="Europe/Berlin")
    frames = [pd.read_csv(folder / name, index_col=0) for name in ("genes.csv", "met.csv")]
    x, y = (frame.assign(when=times) for frame in frames)
    x.to_parquet(folder / "x.parquet")
    y.to_csv(folder / "y.csv", index=False)
    run("transform", "m.cca", "x.parquet", "y.csv", "-o", "s.csv", "--id", "when", cwd=folder)
    assert pd.read_csv(folder / "s.csv")["when"].tolist() == list(map(str, times))
    x.set_axis(times).to_parquet(folder / "x.parquet")
    y.set_axis(times).to_csv(folder / "y.csv")
    run("transform", "m.cca", "x.parquet", "y.csv", "-o", "s.csv", "--id", "row-labels", cwd=folder)
    assert pd.read_csv(folder / "s.csv")["row-labels"].tolist() == list(map(str, times))


def test_errors_about_columns_without_a_name(tables, run):
    folder, _ = tables
    for name in ("sample", "nobody"):
        said = run("transform", "m.cca", "genes.csv", "-o", "s.csv", "--id", name, code=1, cwd=folder)
        assert "genes.csv has (no name), TP53, MYC, KRAS; --id row-labels takes its row labels" in said
    frame = pd.read_csv(folder / "genes.csv").drop(columns="Unnamed: 0")
    frame.to_csv(folder / "plain.csv", index=False)
    said = run("transform", "m.cca", "plain.csv", "-o", "s.csv", "--id", "row-labels", code=1, cwd=folder)
    assert "there is no column 'row-labels' for --id: plain.csv has TP53, MYC, KRAS" in said
    assert "takes its row labels" not in said
