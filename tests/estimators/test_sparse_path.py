"""Paths of penalties and of numbers of columns, and the choice among them by held-out rows."""

import re

import numpy as np
import pytest

from appgrad import SparseCCA, SparseCCACV, load, sparse_path
from appgrad.datasets import sparse_planted
from appgrad.estimators.sparse_path import _chosen
from appgrad.solvers.sparse.batch import largest_alpha
from helpers import operator, quiet
from sparse_problems import both_f1, small, support


@pytest.mark.parametrize("penalty", ["l0", "l1"])
def test_a_path_of_penalties(penalty):
    p = small()
    models = sparse_path(p.X, p.y, 1, alphas=8, penalty=penalty)
    assert 5 <= len(models) <= 8
    alphas = [model.alpha for model in models]
    sizes = [sum(model.n_nonzero_) for model in models]
    assert alphas == sorted(alphas, reverse=True)
    assert sizes[0] < sizes[-1]
    limit = largest_alpha(operator(p.X, p.y), 1)
    assert alphas[0] == pytest.approx(0.95 * limit)
    if penalty == "l1":
        # A point of the path is the model with that penalty.
        one = SparseCCA(1, alpha=alphas[4], penalty=penalty).fit(p.X, p.y)
        assert support(one.x_weights_) == support(models[4].x_weights_)
    assert all(not model.warm_start and model.score(p.X, p.y) > 0.3 for model in models)


def test_a_path_of_pairs_and_of_numbers_of_columns():
    p = small()
    models = sparse_path(p.X, p.y, 1, n_nonzeros=[12, (3, 5)])
    assert [model.n_nonzero_ for model in models] == [(3, 5), (12, 12)]
    models = sparse_path(p.X, p.y, 1, alphas=[(0.1, 0.2), 0.25])
    assert [model.alpha for model in models] == [0.25, (0.1, 0.2)]
    # Beyond what leaves something, a path ends.
    assert len(sparse_path(p.X, p.y, 1, alphas=[0.3, 5.0])) == 1
    with pytest.raises(ValueError, match="the largest useful value is about"):
        sparse_path(p.X, p.y, 1, alphas=[5.0])
    with pytest.raises(TypeError, match="penalities"):
        sparse_path(p.X, p.y, penalities="l0")
    with pytest.raises(ValueError, match="empty"):
        sparse_path(p.X, p.y, alphas=[])
    with pytest.raises(ValueError, match="at least 1"):
        sparse_path(p.X, p.y, alphas=0)


def test_the_largest_useful_penalty_is_useful_just_below():
    p = small()
    with pytest.raises(ValueError, match=r"alpha=0\.99 leaves no column of") as error:
        SparseCCA(1, alpha=0.99).fit(p.X, p.y)
    limit = float(str(error.value).split("about ")[1])
    for penalty in ("l0", "l1"):
        model = quiet(SparseCCA(1, alpha=0.97 * limit, penalty=penalty), p.X, p.y)
        # Weights that do not shrink may keep more columns.
        assert model.n_nonzero_ == (1, 1) or penalty == "l0"
    with pytest.raises(ValueError, match="leaves no column"):
        SparseCCA(1, alpha=1.03 * limit, penalty="l1").fit(p.X, p.y)


@pytest.mark.parametrize("penalty", ["l0", "l1"])
@pytest.mark.parametrize("alpha", [0.9, (0.9, 0.7)])
def test_the_largest_useful_penalty_of_several_components(penalty, alpha):
    p = small()
    model = SparseCCA(2, alpha=alpha, penalty=penalty)
    with pytest.raises(
        ValueError, match=r"leaves fewer than 2 independent columns of [Xy]: the larg"
    ) as error:
        model.fit(p.X, p.y)
    (asked, useful), view = (
        re.findall(r"(?:alpha=|about )([\d.]+)", str(error.value)),
        "y" in str(error.value),
    )
    factor = float(useful) / float(asked)
    pair = np.atleast_1d(alpha) * np.ones(2) * factor
    assert quiet(model.set_params(alpha=tuple(0.98 * pair)), p.X, p.y).n_nonzero_[view] >= 2
    with pytest.raises(ValueError, match="leaves fewer than 2"):
        model.set_params(alpha=tuple(1.2 * pair)).fit(p.X, p.y)


@pytest.mark.parametrize("rule", ["1se", "max"])
def test_held_out_rows_choose_the_number_of_columns(rule):
    p = sparse_planted(500, 150, 150, n_active=6, random_state=0)
    model = SparseCCACV(n_nonzeros=[1, 3, 6, 12, 25], cv=4, rule=rule).fit(p.X, p.y)
    assert model.best_estimator_.n_nonzero_ == (6, 6)
    assert model.scores_.shape == (4, 5)
    assert model.grid_[model.best_index_] == 6
    np.testing.assert_array_equal(model.x_weights_, model.best_estimator_.x_weights_)
    assert model.score(p.X, p.y) == model.best_estimator_.score(p.X, p.y)
    assert model.transform(p.X).shape == (500, 1)
    assert model.predict(p.X).shape == p.y.shape


def test_held_out_rows_choose_a_penalty(tmp_path):
    p = sparse_planted(500, 80, 80, n_active=6, random_state=0)
    model = SparseCCACV(SparseCCA(1, penalty="l1"), alphas=8, cv=3).fit(p.X, p.y)
    assert both_f1(model, p) > 0.7
    assert model.best_estimator_.alpha == model.grid_[model.best_index_]
    model.save(tmp_path / "m.cca")
    again = load(tmp_path / "m.cca")
    assert isinstance(again, SparseCCA)
    np.testing.assert_array_equal(again.x_weights_, model.x_weights_)
    assert again.n_nonzero_ == model.best_estimator_.n_nonzero_


def test_pairs_of_penalties_that_leave_nothing_do_not_end_a_path(rng):
    X, Y = rng.standard_normal((80, 8)), rng.standard_normal((80, 10))
    Y[:, 0] += X[:, 0]
    models = sparse_path(X, Y, 1, alphas=[0.1, (0, 0.95), 0.5])
    assert [model.alpha for model in models] == [0.5, 0.1]
    with pytest.raises(ValueError, match="the largest useful value"):
        sparse_path(X, Y, 1, alphas=[0.95, 0.99])


def test_hard_thresholds_that_go_round_in_circles_end():
    """With three columns a side, these rows have two supports that lead to each other."""
    p = sparse_planted(500, 300, 300, random_state=0)
    few, _ = sparse_path(p.X[:400], p.y[:400], 1, n_nonzeros=[3, 4])
    assert few.n_iter_[0] < 20
    np.testing.assert_allclose(few.canonical_correlations_[0], max(h["tcc"] for h in few.history_))


def test_the_sparsest_model_that_is_as_good():
    # Folds differ more from each other than models do within a fold.
    scores = np.array([[0.1, 0.79, 0.8], [0.2, 0.41, 0.40], [0.1, 0.60, 0.61]])
    assert _chosen(scores, "max") == 2
    assert _chosen(scores, "1se") == 1
    assert _chosen(scores[:1], "1se") == 2


def test_passes_of_a_choice_are_those_of_all_its_fits():
    p = small()
    model = SparseCCACV(n_nonzeros=[3, 6], cv=2).fit(p.X, p.y)
    one = SparseCCA(1, n_nonzero=6).fit(p.X, p.y).n_passes_
    # Checked, cut into folds of half the rows, fitted to each and to all.
    assert model.n_passes_ > 1 + 1.9 * one
    assert model.n_passes_ > model.best_estimator_.n_passes_


def test_paths_of_other_solvers_end_where_nothing_is_left():
    p = small()
    models = sparse_path(p.X, p.y, 1, alphas=[0.1, 0.15, 5.0], penalty="l1", solver="appgrad")
    assert [model.alpha for model in models] == [0.15, 0.1]


def test_what_does_not_go_with_a_path(tmp_path):
    p = small()
    with pytest.raises(ValueError, match="two ways to say it"):
        sparse_path(p.X, p.y, 1, alphas=[0.1], n_nonzeros=[3])
    with pytest.raises(ValueError, match="alpha is what changes along a path"):
        sparse_path(p.X, p.y, 1, n_nonzeros=[3], alpha=0.1)
    with pytest.raises(ValueError, match="a checkpoint is of one fit"):
        sparse_path(p.X, p.y, 1, checkpoint=str(tmp_path / "c.npz"))
    for params in ({"n_nonzeros": 5}, {"alphas": 0.5}):
        with pytest.raises(ValueError, match="expected a list"):
            SparseCCACV(**params).fit(p.X, p.y)
    with pytest.raises(ValueError, match="'l0' with alpha is for solver='pursuit'"):
        SparseCCA(1, alpha=0.1, solver="stochastic").fit(p.X, p.y)
