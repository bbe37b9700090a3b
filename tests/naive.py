"""The slow, obvious twin of every algorithm: textbook formulae, no blocks, no care for time or memory."""

from itertools import combinations

import numpy as np
import scipy.linalg as sl


def dense(m):
    return np.asarray(m.toarray() if hasattr(m, "toarray") else m, dtype=float)


def covariances(X, Y, center=True):
    X, Y = dense(X), dense(Y)
    if center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    n = len(X)
    return X.T @ X / n, X.T @ Y / n, Y.T @ Y / n


def inverse_root(S):
    E, V = np.linalg.eigh(S)
    keep = len(S) * np.finfo(float).eps * E[-1] < E
    return (V[:, keep] / np.sqrt(E[keep])) @ V[:, keep].T


def cca(X, Y, k, ridge=0.0, center=True):
    """Lemma 1.1 of the paper: the SVD of Sx^-1/2 Sxy Sy^-1/2."""
    Sx, Sxy, Sy = covariances(X, Y, center)
    Rx, Ry = (inverse_root(S + ridge * np.eye(len(S))) for S in (Sx, Sy))
    U, s, Vt = np.linalg.svd(Rx @ Sxy @ Ry)
    return s[:k], Rx @ U[:, :k], Ry @ Vt[:k].T


def cca_by_eigenvalues(X, Y, k):
    """Hotelling's generalised eigenproblem, a second route to the same numbers."""
    Sx, Sxy, Sy = covariances(X, Y)
    squares = sl.eigh(Sxy @ np.linalg.solve(Sy, Sxy.T), Sx, eigvals_only=True)
    return np.sqrt(np.maximum(squares[::-1][:k], 0))


def tcc(U, V):
    return cca(U, V, min(U.shape[1], V.shape[1]))[0].sum()


def projection(A, S):
    """The S-orthogonal projection on the span of A."""
    return A @ np.linalg.solve(A.T @ S @ A, A.T @ S)


def symmetric_inverse_root(G):
    E, V = np.linalg.eigh(G)
    return V @ np.diag(E**-0.5) @ V.T


def als(X, Y, psi, phi, steps):
    """Algorithm 1 of the paper, rank k."""
    Sx, Sxy, Sy = covariances(X, Y)
    for _ in range(steps):
        new_phi, new_psi = np.linalg.solve(Sx, Sxy @ psi), np.linalg.solve(Sy, Sxy.T @ phi)
        phi = new_phi @ symmetric_inverse_root(new_phi.T @ Sx @ new_phi)
        psi = new_psi @ symmetric_inverse_root(new_psi.T @ Sy @ new_psi)
    return phi, psi


def naive_gradient(X, Y, phi, psi, eta, steps):
    """Algorithm 2 of the paper, which is incorrect, rank k."""
    Sx, Sxy, Sy = covariances(X, Y)
    for _ in range(steps):
        new_phi, new_psi = phi - eta * (Sx @ phi - Sxy @ psi), psi - eta * (Sy @ psi - Sxy.T @ phi)
        phi = new_phi @ symmetric_inverse_root(new_phi.T @ Sx @ new_phi)
        psi = new_psi @ symmetric_inverse_root(new_psi.T @ Sy @ new_psi)
    return phi, psi


def appgrad(X, Y, phi, psi, phi_t, psi_t, eta, steps):
    """Algorithm 4 of the paper; with one column, Algorithm 3. `eta` is a number, or eta1 and eta2."""
    Sx, Sxy, Sy = covariances(X, Y)
    eta1, eta2 = np.broadcast_to(eta, 2)
    for _ in range(steps):
        phi_t, psi_t = phi_t - eta1 * (Sx @ phi_t - Sxy @ psi), psi_t - eta2 * (Sy @ psi_t - Sxy.T @ phi)
        phi = phi_t @ symmetric_inverse_root(phi_t.T @ Sx @ phi_t)
        psi = psi_t @ symmetric_inverse_root(psi_t.T @ Sy @ psi_t)
    return phi, psi, phi_t, psi_t


def stochastic(batches, phi, psi, phi_t, psi_t, eta):
    """Algorithm 5 of the paper: each batch is a pair of centred rows (x, y) and a pair for the normaliser."""
    for (x, y), (nx, ny) in batches:
        m = len(x)
        phi_t, psi_t = (
            phi_t - eta * x.T @ (x @ phi_t - y @ psi) / m,
            psi_t - eta * y.T @ (y @ psi_t - x @ phi) / m,
        )
        phi = phi_t @ symmetric_inverse_root(phi_t.T @ nx.T @ nx @ phi_t / len(nx))
        psi = psi_t @ symmetric_inverse_root(psi_t.T @ ny.T @ ny @ psi_t / len(ny))
    return phi, psi, phi_t, psi_t


def kernel(name, x, rows, gamma=1.0, degree=3, coef0=1.0):
    """One entry at a time."""
    functions = {
        "rbf": lambda a, b: np.exp(-gamma * np.sum((a - b) ** 2)),
        "linear": lambda a, b: a @ b,
        "poly": lambda a, b: (gamma * (a @ b) + coef0) ** degree,
        "cosine": lambda a, b: a @ b / np.sqrt((a @ a) * (b @ b)),
    }
    return np.array([[functions[name](a, b) for b in rows] for a in x])


def centred(K, rows):
    """Kernel values K with the training rows, whose own are `rows`, centred in feature space."""
    return K - K.mean(axis=1, keepdims=True) - rows.mean(axis=0) + rows.mean()


def kernel_cca(Kx, Ky, k, rx, ry):
    """Hardoon et al. (2004) with the ridge r K: (Kx + n r I)^-1 Ky (Ky + n r I)^-1 Kx a = rho^2 a."""
    n = len(Kx)
    Kx, Ky = centred(Kx, Kx), centred(Ky, Ky)
    to_x, to_y = np.linalg.inv(Kx + n * rx * np.eye(n)) @ Ky, np.linalg.inv(Ky + n * ry * np.eye(n)) @ Kx
    squares, a = np.linalg.eig(to_x @ to_y)
    best = np.argsort(-squares.real)[:k]
    a = a.real[:, best]
    return np.sqrt(squares.real[best]), a, to_y @ a


def shrunk(A, level):
    """Rows of A shorter by `level`, or zero: the proximal map of the sum of their norms."""
    return np.array([a * max(0.0, 1 - level / max(np.linalg.norm(a), 1e-300)) for a in A])


def sparse_cca(X, Y, A, B, alpha, steps):
    """Group lasso of each side's scores on the other's, normalised in turn, by plain proximal steps.

    Columns in units of their standard deviations, where A and B are weights too.
    """
    n = len(X)
    Sx, Sxy, Sy = X.T @ X / n, X.T @ Y / n, Y.T @ Y / n
    eta1, eta2 = 1 / np.linalg.eigvalsh(Sx)[-1], 1 / np.linalg.eigvalsh(Sy)[-1]
    for _ in range(steps):
        psi = B @ symmetric_inverse_root(B.T @ Sy @ B)
        A = shrunk(A - eta1 * (Sx @ A - Sxy @ psi), eta1 * alpha[0])
        phi = A @ symmetric_inverse_root(A.T @ Sx @ A)
        B = shrunk(B - eta2 * (Sy @ B - Sxy.T @ phi), eta2 * alpha[1])
    return A, B


def best_subset_cca(X, Y, sx, sy):
    """The best first canonical correlation of any sx columns of X and sy of Y, and which they are."""
    found = []
    for a in combinations(range(X.shape[1]), sx):
        for b in combinations(range(Y.shape[1]), sy):
            found.append((cca(X[:, a], Y[:, b], 1)[0][0], a, b))
    return max(found)


def stored_entries(kind, parts):
    """The numbers of a sparse matrix, entry by entry; None if its parts do not fit together."""
    (rows, columns), values = parts["shape"], parts["data"]
    tall, wide = (1, 1) if kind != "bsr" else values.shape[1:]
    places = []
    if kind == "coo":
        places = list(zip(parts["row"], parts["col"], values, strict=True))
    elif kind == "dia":
        if len(set(parts["offsets"])) < len(parts["offsets"]):
            return None
        for offset, diagonal in zip(parts["offsets"], values, strict=True):
            if not -rows < offset < columns:
                return None
            for j, value in enumerate(diagonal[:columns]):
                places += [(j - offset, j, value)] if 0 <= j - offset < rows else []
    else:
        indptr, lines = parts["indptr"], (columns if kind == "csc" else rows // tall)
        if (
            len(indptr) != lines + 1
            or indptr[0]
            or list(indptr) != sorted(indptr)
            or indptr[-1] > len(values)
        ):
            return None
        for i in range(lines):
            for at in range(indptr[i], indptr[i + 1]):
                place = i, parts["indices"][at]
                places.append((*(place[::-1] if kind == "csc" else place), values[at]))
    found = np.zeros((rows, columns))
    for i, j, value in places:
        if not (0 <= i < rows // tall and 0 <= j < columns // wide):
            return None
        found[i * tall : (i + 1) * tall, j * wide : (j + 1) * wide] += value
    return found


def wilks(squares, n, p, q, k=0):
    """Rao's F of the squared correlations after the k first ones: lambda, both degrees of freedom, F."""
    L = 1.0
    for square in squares:
        L *= 1 - square
    P, Q = p - k, q - k
    t = 1.0 if P * Q <= 2 else ((P * P * Q * Q - 4) / (P * P + Q * Q - 5)) ** 0.5
    m = n - 1 - (p + q + 1) / 2
    df2 = m * t - P * Q / 2 + 1
    return L, P * Q, df2, (L ** (-1 / t) - 1) * df2 / (P * Q)
