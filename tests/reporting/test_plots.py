"""Figures: what is drawn, by the data of the artists."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt
from sklearn.exceptions import NotFittedError

from appgrad import CCA, KernelCCA, SparseCCA, correlations, plots
from appgrad.datasets import planted

HOSTILE = ["$\\frac{1}{", "$x^2$", "a" * 500, "two\nlines\x00", "  ", "_^{}%&#~"]


@pytest.fixture(scope="module")
def data():
    p = planted(300, 6, 5, [0.9, 0.6, 0.3], random_state=0)
    return p.X, p.y


@pytest.fixture(scope="module")
def model(data):
    return CCA(3).fit(*data)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def drawn(ax):
    """The figure as it would be saved: texts are only looked at here."""
    ax.figure.canvas.draw()
    return ax


def test_importing_the_package_imports_no_matplotlib():
    code = "import sys, appgrad; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_figure_goes_where_it_is_told(model, data):
    _, axes = plt.subplots(1, 5)
    U, V = model.transform(*data)
    assert plots.scree([0.9, 0.5], ax=axes[0]) is axes[0]
    assert plots.scores(U, V, ax=axes[1]) is axes[1]
    assert plots.loadings(model, ax=axes[2]) is axes[2]
    assert plots.convergence(model, ax=axes[3]) is axes[3]
    assert plots.biplot(model, data[0], ax=axes[4]) is axes[4]
    drawn(axes[0])


def test_scree_leaves_room_for_what_is_below_zero():
    ax = plots.scree([0.9, 0.2, 0.1], [0.8, np.nan, -0.4])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [0.8, np.nan, -0.4])
    assert ax.get_ylim()[0] < -0.4


def test_scores(model, data):
    U, V = model.transform(*data)
    ax = plots.scores(U, V, component=1)
    np.testing.assert_allclose(ax.collections[0].get_offsets(), np.column_stack([U[:, 1], V[:, 1]]))
    assert f"{correlations(U, V)[1]:.3f}" in ax.get_title()
    assert ax.get_legend() is None
    for component in (3, -1):
        with pytest.raises(ValueError, match=f"components 0 to 2, got {component}"):
            plots.scores(U, V, component=component)


def test_scores_in_groups(model, data, rng):
    U, V = model.transform(*data)
    labels = np.where(U[:, 0] > 0, "$high$", "low")
    ax = drawn(plots.scores(U, V, labels=labels))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["$high$", "low"]
    assert not any(text.get_parse_math() for text in ax.get_legend().get_texts())
    high, low = (found.get_offsets() for found in ax.collections)
    assert high[:, 0].min() > 0 >= low[:, 0].max()
    with pytest.raises(ValueError, match="2 labels for 300 rows"):
        plots.scores(U, V, labels=["a", "b"])


def test_many_groups_are_ten_and_many_numbers_a_scale(model, data):
    U, V = model.transform(*data)
    words = [f"w{i % 30 if i % 2 else 1}" for i in range(300)]
    ax = plots.scores(U, V, labels=words)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(names) == 10
    assert "w1" in names
    assert names[-1] == "all others"
    assert sum(len(found.get_offsets()) for found in ax.collections) == 300
    for numbers in (np.arange(300.0), [str(i) for i in range(300)]):
        ax = plots.scores(U, V, labels=numbers)
        np.testing.assert_array_equal(ax.collections[0].get_array(), np.arange(300))
    ax = drawn(plots.scores(U, V, labels=[np.inf, *range(299)]))
    np.testing.assert_array_equal(ax.collections[1].get_array(), np.arange(299))


def test_loadings_are_correlations(model, data):
    X, Y = data
    for view, M, scores in (("x", X, model.transform(X)), ("y", Y, model.transform(X, Y)[1])):
        expected = [np.corrcoef(column, scores[:, 1])[0, 1] for column in M.T]
        order = np.argsort(-np.abs(expected))[:4]
        ax = plots.loadings(model, component=1, view=view, top=4)
        np.testing.assert_allclose([bar.get_width() for bar in ax.patches], np.array(expected)[order])
        assert [text.get_text() for text in ax.get_yticklabels()] == [f"{view}{j}" for j in order]
    assert ax.yaxis_inverted()
    with pytest.raises(ValueError, match="view must be 'x' or 'y', got 'z'"):
        plots.loadings(model, view="z")
    with pytest.raises(ValueError, match="2 names for 6 columns"):
        plots.loadings(model, names=["a", "b"])
    with pytest.raises(ValueError, match="components 0 to 2, got 3"):
        plots.loadings(model, component=3)


def test_sparse_components_have_bars_for_their_columns_only(data):
    X, Y = data
    model = SparseCCA(1, n_nonzero=(2, 1)).fit(X, Y)
    ax = plots.loadings(model)
    weights = model.x_weights_[:, 0] * X.std(axis=0)
    assert len(ax.patches) == 2
    assert abs(ax.patches[0].get_width()) == pytest.approx(np.abs(weights).max())
    assert "weight" in ax.get_xlabel()
    two = SparseCCA(2, n_nonzero=2).fit(X, Y)
    assert len(plots.biplot(two, X, top=5).texts) == 4


@pytest.mark.parametrize("usetex", [False, True])
def test_names_are_shown_as_they_are(model, data, usetex):
    with mpl.rc_context({"text.usetex": usetex}):
        ax = plots.loadings(model, names=HOSTILE)
        shown = ax.get_yticklabels()
        assert not any(text.get_parse_math() or text.get_usetex() for text in shown)
        assert {"$x^2$", "$\\frac{1}{"} <= {text.get_text() for text in shown}
        assert max(len(text.get_text()) for text in shown) == 32
        ax = plots.biplot(model, data[0], x_names=HOSTILE, top=6)
        assert not any(text.get_parse_math() or text.get_usetex() for text in ax.texts)
    if not usetex:
        drawn(ax)
        drawn(plots.loadings(model, names=HOSTILE))


def test_convergence(data):
    X, Y = data
    models = {
        "exact": CCA(2).fit(X, Y),
        "$appgrad$": CCA(2, solver="appgrad", random_state=0).fit(X, Y),
    }
    ax = drawn(plots.convergence(models, against="passes"))
    steps = models["$appgrad$"].history_
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), [step["passes"] for step in steps])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [step["tcc"] for step in steps])
    assert ax.lines[0].get_marker() == "o"  # one point is no line
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["exact", "$appgrad$"]
    alone = plots.convergence(steps, against="flops")
    assert alone.get_xscale() == "log"
    assert alone.get_legend() is None
    assert plots.convergence(steps, against="seconds").get_xscale() == "linear"
    with pytest.raises(ValueError, match="direct solvers count no flops"):
        plots.convergence(models["exact"], against="flops")
    with pytest.raises(ValueError, match="against must be one of"):
        plots.convergence(models, against="time")


def test_biplot(model, data):
    X, Y = data
    U, V = model.transform(X, Y)
    ax = plots.biplot(model, X, components=(0, 2), top=2)
    np.testing.assert_allclose(ax.collections[0].get_offsets(), U[:, [0, 2]])
    tips = np.array([[np.corrcoef(x, u)[0, 1] for u in U[:, [0, 2]].T] for x in X.T])
    order = np.argsort(-np.hypot(*tips.T))[:2]
    arrows = ax.collections[1]
    radius = np.quantile(np.hypot(*U[:, [0, 2]].T), 0.95)
    np.testing.assert_allclose(np.column_stack([arrows.U, arrows.V]), radius * tips[order])
    assert [text.get_text() for text in ax.texts][:2] == [f"x{j}" for j in order]
    both = plots.biplot(model, X, Y, labels=U[:, 0] > 0)
    legend = [text.get_text() for text in both.get_legend().get_texts()]
    assert legend == ["False", "True", "columns of x", "columns of y"]
    points = np.vstack([found.get_offsets() for found in both.collections[:2]])
    np.testing.assert_allclose(np.sort(points[:, 0]), np.sort((U + V)[:, 0] / 2))
    with pytest.raises(ValueError, match="components 0 to 2, got 3"):
        plots.biplot(model, X, components=(0, 3))


def test_names_of_arrows_keep_apart(rng):
    """Ten columns that are nearly the same: their arrows coincide, their names do not."""
    X = rng.standard_normal((200, 1)) + 0.01 * rng.standard_normal((200, 5))
    model = CCA(2, ridge=0.1).fit(X, X + 0.01 * rng.standard_normal((200, 5)))
    ax = plots.biplot(model, X)
    heights = np.sort([text.get_position()[1] for text in ax.texts])
    radius = np.hypot(*ax.lines[0].get_xydata()[0])
    assert len(heights) == 10
    assert np.diff(heights).min() > 0.1 * radius


def test_a_model_or_its_correlations(model):
    np.testing.assert_array_equal(plots.scree(model).lines[0].get_ydata(), model.training_correlations_)
    with pytest.raises(TypeError, match=r"got an array of shape \(2, 2\)"):
        plots.scree([[0.9, 0.5], [0.8, 0.4]])
    with pytest.raises(TypeError, match="two matrices of scores"):
        plots.scores(model, model)


@pytest.mark.parametrize(
    "draw",
    [
        plots.scree,
        plots.loadings,
        plots.convergence,
        lambda model: plots.biplot(model, [[0.0]]),
        lambda model: plots.convergence({"a": model}),
    ],
)
def test_a_model_must_be_fitted(draw):
    with pytest.raises(NotFittedError):
        draw(CCA(2))


def test_rows_without_a_number_are_grey(rng):
    U = rng.standard_normal((30, 1))
    labels = np.arange(30.0)
    labels[3] = np.nan
    grey, known = plots.scores(U, U, labels=labels).collections[:2]
    assert len(grey.get_offsets()) == 1
    assert len(known.get_offsets()) == 29


def test_kernels_have_no_features(data):
    X, Y = data
    model = KernelCCA(2).fit(X[:50], Y[:50])
    for draw in (lambda: plots.loadings(model), lambda: plots.biplot(model, X)):
        with pytest.raises(TypeError, match="KernelCCA are functions of all columns"):
            draw()
    assert plots.scores(*model.transform(X, Y)).collections


def test_a_hundred_thousand_features(rng):
    X = rng.standard_normal((20, 100_000)).astype(np.float32)
    model = CCA(2, ridge=1.0).fit(X, X[:, :50])
    assert len(plots.loadings(model, top=10).patches) == 10
    assert len(plots.biplot(model, X, top=5).texts) == 10
