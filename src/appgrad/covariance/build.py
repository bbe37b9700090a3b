"""Builders of the covariance operator of two views, with the pass that it needs."""

from __future__ import annotations

from typing import Any

from ..data.views import Views
from .gram import GramCovariance
from .matrices import MatrixCovariance
from .moments import moments, second_moments
from .operators import Covariance
from .rows import RowCovariance
from .units import Ridge, kernel_ridges, units, working_dtype

Ridges = Ridge | tuple[Ridge, Ridge]


def operator(
    views: Views, *, center: bool, scale: bool, ridge: Ridges, matrices: bool = False, dtype: Any = None
) -> Covariance:
    """The operator: on Gram matrices for a `KernelRidge`, on p x p `matrices` if asked, else on rows.

    By default rows are multiplied in the precision of the data, or in one in which their squares do not
    overflow.
    """
    r = kernel_ridges(ridge)
    if r is not None:
        m = moments(views, center)
        dtype = working_dtype(m, views.dtype) if dtype is None else dtype
        return GramCovariance(views, m, units(m, views.dtype, scale=scale, ridge=ridge), r, dtype)
    if matrices:
        return on_matrices(views, center=center, scale=scale, ridge=ridge)
    return on_rows(views, center=center, scale=scale, ridge=ridge, dtype=dtype)


def on_rows(views: Views, *, center: bool, scale: bool, ridge: Ridges, dtype: Any = None) -> RowCovariance:
    """The operator on rows; one pass for their moments."""
    m = moments(views, center)
    dtype = working_dtype(m, views.dtype) if dtype is None else dtype
    return RowCovariance(views, m, units(m, views.dtype, scale=scale, ridge=ridge), dtype)


def on_matrices(views: Views, *, center: bool, scale: bool, ridge: Ridges) -> MatrixCovariance:
    """The operator on p x p matrices, gathered in one pass."""
    second = second_moments(views, center)
    return MatrixCovariance.of_moments(
        second, units(second.moments(views.widths), views.dtype, scale=scale, ridge=ridge)
    )
