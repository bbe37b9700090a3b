"""Alternating least squares, Algorithm 1 of the paper (Golub & Zha 1995), of rank 1 or k."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..covariance.joint import Joint
from ..covariance.linalg import captured, column_dots
from ..covariance.operators import Covariance
from ..covariance.preconditioners import Preconditioner, require_comparable
from ..data.views import Views
from ..machine.arrays import Array
from ..machine.memory import budget
from .batch import BatchSolver, Ready
from .canonical import relative
from .conjugate_gradients import conjugate_gradients
from .convergence import Watch, by_count, by_residuals
from .costs import Cost, Rates, is_full, matrices_needed, small_flops, thin, thin_memory
from .exact import exact_cost
from .probe import ROUNDS, SHALLOW, Pairs, missing, probing
from .problem import Diagnostics, Limits, Products
from .protocol import Options, Outcome
from .shortfall import contradicted, lost_in_rounding, out_of_budget, unprobed

# Doubles for each feature and column carried, at the peak.
DOUBLES = 24
# Passes to the default tolerance, for full rows and for sparse ones, at ten an iteration. On sparse rows with
# the default ridge it is not expected to end before its limit.
PASSES = {True: 300, False: 10000}


class State(NamedTuple):
    """Normalised bases, their products, and the correlations between them: phi'Sxy psi = P diag(rho) Q'.

    A probe is `due` after so many `iterations`; `watch` follows what is captured and what is missing.
    """

    phi: Array
    psi: Array
    products: Products
    pairing: tuple[Array, Array, Array]
    iterations: int = 0
    due: int = 0
    watch: Watch = Watch()


@dataclass(frozen=True)
class ALS:
    """Each side is regressed on the other's scores, and normalised:

        phi <- Sx^-1 Sxy psi,  phi <- phi (phi'Sx phi)^-1/2     psi <- Sy^-1 Syx phi, likewise

    Solves are exact if factors W are given, W W' = S^-1. Otherwise there are at most `inner` iterations of
    preconditioned conjugate gradients, one pass each, started at the last solution. They end at a tenth
    (`inner_tol`) of the first residual: early on, more accuracy would be wasted. `probe` is the number of
    iterations of a look at what is missing, `rounds` of which end a run; 0 for none. `first` are columns to
    start from, which have cost the operations `spent`; `joint` knows for some columns what residuals say to
    be missing.
    """

    n_components: int
    preconditioner: Preconditioner = field(default_factory=Preconditioner)
    factors: tuple[Array, Array] | None = None
    inner: int = 10
    inner_tol: float = 0.1
    tol: float = 1e-4
    norm: Preconditioner | None = None
    probe: int = 0
    rounds: int = ROUNDS
    first: tuple[Array, Array] | None = None
    joint: Joint | None = None
    spent: float = 0.0

    def init(self, cov: Covariance, k: int, rng: np.random.Generator) -> tuple[State, Diagnostics]:
        """A Gaussian basis of the first view, or that given, and its regression on the second, normalised."""
        p1, p2 = cov.units.widths
        phi, psi = self.preconditioner.gaussian(p1, p2, k, rng) if self.first is None else self.first
        start, _ = self._normalised(cov, phi, psi, 0.0)
        # psi comes from phi: two independent draws would alternate for ever, each with the other's successor,
        # and would end in different subspaces where correlations coincide.
        _, psi, flops = self._regressed(start, cov)
        first, diagnostics = self._normalised(cov, start.phi, psi, self.spent + flops + cov.flops(k))
        if self.factors is not None:
            # A random phi may have directions that the factors leave out, and steps have not.
            return first, diagnostics._replace(converged=False)
        return self._confirmed(cov, first, diagnostics)

    def step(self, state: State, cov: Covariance) -> tuple[State, Diagnostics]:
        """One alternation of both sides, each from the other's last value."""
        phi, psi, flops = self._regressed(state, cov)
        new, diagnostics = self._normalised(cov, phi, psi, flops, state.watch, state.iterations + 1)
        return self._confirmed(cov, new._replace(iterations=state.iterations + 1, due=state.due), diagnostics)

    def _confirmed(
        self, cov: Covariance, state: State, diagnostics: Diagnostics
    ) -> tuple[State, Diagnostics]:
        """Return whether a state whose residuals are small also misses little, or one that misses less."""
        if not self.probe or not diagnostics.converged:
            return state, diagnostics
        if state.iterations < state.due:
            return state, diagnostics._replace(converged=False)
        span = Pairs(state.phi, state.psi, state.products, state.pairing[1])
        k, tcc = self.n_components, diagnostics.tcc
        found = missing(cov, self.preconditioner, span, k, self.probe, self.rounds, self.tol * tcc)
        little, flops = found.is_little(self.tol, tcc), diagnostics.flops + found.flops
        due = state.iterations + state.iterations // 2 + 1
        if not little and found.is_found(self.tol, tcc):
            A, B, products, rho = found.pairs
            identity = np.eye(len(rho))
            state = state._replace(phi=A, psi=B, products=products, pairing=(identity, rho, identity))
            tcc = float(np.minimum(rho[:k], 1.0).sum())
            diagnostics = diagnostics._replace(A=A, B=B, products=products, tcc=tcc)
        return state._replace(due=due), diagnostics._replace(converged=little, flops=flops)

    def _regressed(self, state: State, cov: Covariance) -> tuple[Array, Array, float]:
        """Return Sx^-1 Sxy psi, Sy^-1 Syx phi, and the operations they cost."""
        if self.factors is None:
            return self._conjugate_gradients(state, cov)
        (Wx, Wy), (_, xy, yx, _) = self.factors, state.products
        return Wx @ (Wx.T @ xy), Wy @ (Wy.T @ yx), 4.0 * (Wx.size + Wy.size) * xy.shape[1]

    def _normalised(
        self,
        cov: Covariance,
        phi: Array,
        psi: Array,
        flops: float,
        watch: Watch | None = None,
        count: int = 0,
    ) -> tuple[State, Diagnostics]:
        """Return the state of phi (phi'Sx phi)^-1/2 and psi (psi'Sy psi)^-1/2, and its diagnostics."""
        with np.errstate(over="ignore", invalid="ignore"):
            xx, xy, yx, yy = cov.products(phi, psi)
            require_comparable(phi.T @ xx, psi.T @ yy)
        Nx, Ny, tcc = captured(phi.T @ xx, phi.T @ xy, psi.T @ yy, self.n_components, cov.precision)
        phi, psi = phi @ Nx, psi @ Ny
        products = xx @ Nx, xy @ Ny, yx @ Nx, yy @ Ny
        P, rho, Qt = np.linalg.svd(phi.T @ products[1])
        c = phi.shape[1]
        flops += cov.flops(c) + small_flops(len(phi) + len(psi), c)
        k, (squares, more) = self.n_components, self._squares(products, P, rho, Qt.T)
        short = by_residuals(rho, squares + more, k)
        watch = Watch() if watch is None else watch
        left = by_count((*watch.totals, tcc), count)
        watch = watch.after(tcc, max(short, left), self.tol, float(rho[:k].min()))
        state = State(phi, psi, products, (P, rho, Qt.T), watch=watch)
        found = Diagnostics(phi, psi, tcc, flops, watch.is_settled(k, self.tol), products)
        residual = float(relative(squares, rho, cov)[:k].max(initial=0.0))
        return state, found._replace(residual=residual, missing=watch.missing / tcc if tcc > 0 else np.inf)

    def _squares(self, products: Products, P: Array, rho: Array, Q: Array) -> tuple[Array, Array | float]:
        """Squared residuals of the canonical equations for the pairs phi P, psi Q, and what `joint` adds.

        The norm is that of S^-1 if its factors are given, else that of `norm` or the preconditioner.
        """
        xx, xy, yx, yy = products
        rx, ry = xy @ Q - xx @ P * rho, yx @ P - yy @ Q * rho
        if self.factors is not None:
            parts = (np.sum((W.T @ r) ** 2, axis=0) for W, r in zip(self.factors, (rx, ry), strict=True))
            return np.asarray(sum(parts)), 0.0
        Zx, Zy = (self.preconditioner if self.norm is None else self.norm)(rx, ry)
        squares = column_dots(rx, Zx) + column_dots(ry, Zy)
        return squares, 0.0 if self.joint is None else self.joint.solve(Zx, Zy)

    def _conjugate_gradients(self, state: State, cov: Covariance) -> tuple[Array, Array, float]:
        """Solve Sx A = Sxy psi and Sy B = Syx phi, all columns at a time, one pass an iteration.

        The start is the regression within the spans of phi and psi.
        """
        xx, xy, yx, yy = state.products
        P, rho, Q = state.pairing
        # phi P and psi Q are paired with correlations rho: psi regressed on X is phi P diag(rho) Q'.
        to_x, to_y = (P * rho) @ Q.T, (Q * rho) @ P.T
        start = state.phi @ to_x, state.psi @ to_y
        residuals = xy - xx @ to_x, yx - yy @ to_y
        return conjugate_gradients(cov, self.preconditioner, start, residuals, self.inner, self.inner_tol)


class ALSSolver(BatchSolver):
    """Alternating least squares on all rows: by factors of p x p matrices if these are small."""

    name = "als"
    records: ClassVar[dict[str, Any]] = {"als-state/1": State}

    def uses_matrices(self, views: Views, options: Options) -> bool:
        """True if matrices are asked for, or small."""
        p = views.n_features_x + views.n_features_y
        # Matrices, factors and work space take about eight p x p matrices.
        return options.dense or 8 * 8 * p**2 <= budget()

    def kind(self, views: Views, options: Options, matrices: bool) -> str | None:
        """Return the kind of preconditioner: the diagonal with a head, or if factors solve matrices."""
        kind = super().kind(views, options, matrices)
        simple = matrices or self.head(views, options, matrices)
        return "jacobi" if simple and kind is not None else kind

    def algorithm(self, ready: Ready) -> tuple[ALS, Limits]:
        """Return ALS with exact solves on matrices, with conjugate gradients elsewhere."""
        cov, factors = ready.cov, None
        if cov.whitened is not None:
            factors = cov.whitened[0].W, cov.whitened[1].W
        k, tol, limits, probe = ready.problem.n_components, ready.options.tol, ready.limits, 0
        if factors is None and tol > 0:
            probe, limits = probing(ready.preconditioner, limits, ready.matrices, SHALLOW)
        rounds = ROUNDS if limits.passes is None else 1
        als = ALS(k, ready.preconditioner, factors, tol=tol, norm=ready.norm, probe=probe, rounds=rounds)
        start = self.start(ready, limits)
        return replace(als, first=start.first, joint=start.joint, spent=start.flops), limits

    def cost(self, views: Views, k: int, rates: Rates) -> Cost:
        """Return the expected cost: ten passes an iteration, or one in all if matrices are gathered."""
        part, memory = thin(views, k, rates), thin_memory(views, thin(views, k, rates).width, DOUBLES)
        if self.uses_matrices(views, Options(self.name)):
            seconds = exact_cost(views, rates).seconds
            return Cost(self.name, 1.0, seconds, memory + matrices_needed(views))
        passes = 1.0 + PASSES[is_full(views)]
        return Cost(self.name, passes, passes * (part.one + part.algebra / 3), memory)

    def shortfalls(self, outcome: Outcome) -> list[str]:
        """Return warnings about a run whose result belies its residuals, or that ended on a budget."""
        found = lost_in_rounding(outcome) + contradicted(outcome)
        return found + (out_of_budget(outcome) or unprobed(outcome))


SOLVER = ALSSolver()
