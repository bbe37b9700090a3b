"""The slow, obvious twin of every algorithm: textbook formulae, no blocks, no care for time or memory."""

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
