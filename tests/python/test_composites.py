"""Sums and products of operators, in SciPy's functions; SciPy's operators in our methods."""
import copy
import pickle

import numpy as np
import pytest
import tomos

sparse = pytest.importorskip("scipy.sparse")
linalg = pytest.importorskip("scipy.sparse.linalg")

pytestmark = pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of lsmr, in float32


@pytest.fixture
def pair():
    """Two operators of one size, and their matrices."""
    grid, theta = tomos.Grid(6), np.linspace(0.1, 3, 7)
    A, B = (tomos.Projector(grid, tomos.parallel(theta, columns=6, axis=axis))
            for axis in (2.5, 2.9))
    return A, B, A.matrix().toarray(), B.matrix().toarray()


MADE = {
    "A": (lambda A, B: A, lambda a, b: a),
    "A.T": (lambda A, B: A.T, lambda a, b: a.T),
    "A.H": (lambda A, B: A.H, lambda a, b: a.T),
    "2 * A": (lambda A, B: 2 * A, lambda a, b: 2 * a),
    "A * float32": (lambda A, B: A * np.float32(0.5), lambda a, b: 0.5 * a),
    "float64 * A": (lambda A, B: np.float64(0.5) * A, lambda a, b: 0.5 * a),
    "A / 4": (lambda A, B: A / 4, lambda a, b: a / 4),
    "-A": (lambda A, B: -A, lambda a, b: -a),
    "A + B": (lambda A, B: A + B, lambda a, b: a + b),
    "A - B": (lambda A, B: A - B, lambda a, b: a - b),
    "A - B.matrix()": (lambda A, B: A - B.matrix(), lambda a, b: a - b),
    "B.matrix() - A": (lambda A, B: B.as_linear_operator().tomos_operator - A, lambda a, b: b - a),
    "A.T @ A": (lambda A, B: A.T @ A, lambda a, b: a.T @ a),
    "A @ B.H": (lambda A, B: A @ B.H, lambda a, b: a @ b.T),
    "A.T @ matrix": (lambda A, B: A.T @ B.matrix(), lambda a, b: a.T @ b),
    "matrix @ A": (lambda A, B: B.matrix().T.tocsr() @ A, lambda a, b: b.T @ a),
    "A.T @ LinearOperator": (lambda A, B: A.T @ linalg.aslinearoperator(B.matrix()),
                             lambda a, b: a.T @ b),
    "(A.T @ A + 3 I).T": (lambda A, B: (A.T @ A + 3 * tomos.Operator.identity(A)).T,
                          lambda a, b: a.T @ a + 3 * np.eye(a.shape[1])),
    "(2 * (A + B).T @ A).T": (lambda A, B: (2 * (A + B).T @ A).T, lambda a, b: 2 * a.T @ (a + b)),
}


@pytest.mark.parametrize("name", MADE)
def test_products_and_adjoints(pair, name, rng):
    A, B, a, b = pair
    made, matrix = MADE[name][0](A, B), MADE[name][1](a, b)
    assert isinstance(made, tomos.Operator)
    assert made.shape == matrix.shape and made.dtype == np.float32
    assert made.matched and repr(made).startswith("<tomos.")
    x, y = rng.random(made.shape[1], np.float32), rng.random(made.shape[0], np.float32)
    close = dict(rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(made @ x, matrix @ x, **close)
    np.testing.assert_allclose(made.T @ y, matrix.T @ y, **close)
    np.testing.assert_allclose(made.H @ y, made.rmatvec(y))
    np.testing.assert_allclose(made.matvec(x[:, None]), (matrix @ x)[:, None], **close)
    np.testing.assert_allclose(made.rmatmat(np.stack([y, 2 * y], 1)),
                               matrix.T @ np.stack([y, 2 * y], 1), **close)
    shaped = made(x.reshape(made.domain))
    assert shaped.shape == made.range
    np.testing.assert_allclose(shaped.ravel(), matrix @ x, **close)
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        np.testing.assert_array_equal(again @ x, made @ x)


def test_the_norm_of_what_changes_sign(pair):
    A, B, a, b = pair
    assert abs((A - B).norm() - np.linalg.norm(a - b, 2)) < 2e-2 * np.linalg.norm(a - b, 2)
    assert abs((A.T @ A).norm() - np.linalg.norm(a, 2) ** 2) < 1e-3 * np.linalg.norm(a, 2) ** 2


def test_scipy_takes_operators_as_they_are(slice_problem):
    A, x, y = slice_problem
    flat = y.ravel()
    for solved in (linalg.lsqr(A, flat, iter_lim=200)[0], linalg.lsmr(A, flat, maxiter=200)[0]):
        assert np.linalg.norm(solved - x.ravel()) < 0.1 * np.linalg.norm(x)
    normal = A.T @ A + 1e-3 * tomos.Operator.identity(A)
    solved, status = linalg.cg(normal, A.T @ flat, maxiter=300, atol=0)
    assert np.linalg.norm(solved - x.ravel()) < 0.1 * np.linalg.norm(x)
    largest = linalg.svds(A, k=2, return_singular_vectors=False).max()
    assert abs(largest - A.norm()) < 1e-3 * largest
    value = linalg.eigsh(A.T @ A, k=1, return_eigenvectors=False)[0]
    assert abs(value - largest ** 2) < 1e-3 * value
    assert linalg.aslinearoperator(A).shape == A.shape


def test_linear_operators_can_be_sent(slice_problem):
    A, x, y = slice_problem
    for L in (A.as_linear_operator(), A.T.as_linear_operator(), (2 * A).as_linear_operator()):
        M = pickle.loads(pickle.dumps(L))
        v = np.ones(L.shape[1], np.float32)
        np.testing.assert_array_equal(M @ v, L @ v)
        assert L.H.shape == L.shape[::-1] and L.T.T.shape == L.shape


METHODS = ["sirt", "cgls", "lsqr", "lsmr", "mlem", "fista", "pdhg"]


@pytest.mark.parametrize("method", METHODS)
def test_methods_take_what_scipy_has(slice_problem, method):
    A, _, y = slice_problem
    solve = getattr(tomos, method)
    wanted = solve(A, y, iterations=4)
    matrix = A.matrix()
    start = np.zeros_like(wanted)
    for other in (matrix, sparse.csc_matrix(matrix), linalg.aslinearoperator(matrix),
                  A.as_linear_operator(),
                  0.5 * A + A / 2):
        x = solve(other, y, start, iterations=4)
        assert x.shape == wanted.shape
        np.testing.assert_allclose(x, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    x = solve(matrix, y.ravel(), iterations=4)
    assert x.shape == (A.shape[1],)
    if method != "pdhg" and method != "fista":  # whose penalty needs to know the axes
        np.testing.assert_allclose(x, wanted.ravel(), rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


def test_rows_and_views_of_matrices(slice_problem):
    A, _, y = slice_problem
    matrix, start = A.matrix(), np.zeros(A.domain, np.float32)
    for method in (tomos.art, tomos.sart, tomos.osem):
        np.testing.assert_allclose(method(matrix, y, start, iterations=2),
                                   method(A, y, iterations=2), atol=1e-3)
        with pytest.raises(tomos.Unsupported, match="LinearOperator.* cannot"):
            method(linalg.aslinearoperator(matrix), y, iterations=1)
    with pytest.raises(tomos.Unsupported, match="^sart: the operator .*2 .*cannot be split into "
                       "blocks of views; sums and products .* go with .* sirt, cgls"):
        tomos.sart(2 * A, y)


def test_exceptions_of_custom_operators_are_raised(slice_problem):
    A, _, y = slice_problem

    def broken(x):
        raise KeyError("the cat sat on it")
    m, n = A.shape
    with pytest.raises(KeyError, match="the cat"):
        tomos.cgls(linalg.LinearOperator((m, n), matvec=broken, rmatvec=broken, dtype=np.float32),
                   y.ravel())
    short = linalg.LinearOperator((m, n), matvec=lambda x: x[:3], rmatvec=lambda y: y[:3],
                                  dtype=np.float32)
    with pytest.raises(ValueError):
        tomos.cgls(short, y.ravel())
    with pytest.raises(tomos.Unsupported, match="entries of 0 and above"):
        tomos.sirt(-A, y)
    with pytest.raises(tomos.Unsupported, match="has negative entries; mlem needs"):
        tomos.mlem(A.matrix() * -1, y.ravel())


def test_an_old_failure_is_not_raised_again(slice_problem):
    """As one that a function had after its call was interrupted."""
    A, x, y = slice_problem
    m, n = A.shape
    L = linalg.LinearOperator((m, n), matvec=lambda x: A @ x, rmatvec=lambda y: A.T @ y,
                              dtype=np.float32)
    normal = A.T @ L
    normal._functions[0].failure = KeyError("old")
    with pytest.raises(tomos.Unsupported, match="cannot give single rows"):
        tomos.art(normal, np.ones(n), iterations=1)
    failing = linalg.LinearOperator((m, n), matvec=lambda x: 1 / 0, rmatvec=lambda y: A.T @ y,
                                    dtype=np.float32)
    other = A.T @ failing
    with pytest.raises(ZeroDivisionError):
        other @ x.ravel()
    assert other._functions[0].failure is None


@pytest.mark.parametrize("call, failure, message", [
    (lambda A, b: A * b, TypeError, "an operator times a ndarray: .* applied with @"),
    (lambda A, b: b @ A, TypeError, "applied with @ from the left"),
    (lambda A, b: A + 3, TypeError, "an operator and a int cannot be added"),
    (lambda A, b: b - A, TypeError, "an operator and a ndarray cannot be added"),
    (lambda A, b: A / b, TypeError, "divided by a ndarray"),
    (lambda A, b: A @ A, tomos.BadValue,
     r"product of operators of 42 x 36 and 42 x 36: the inner sizes"),
    (lambda A, b: A + A.T, tomos.BadValue, r"sum of operators of 42 x 36 and 36 x 42"),
    (lambda A, b: A * float("nan"), tomos.BadValue, "an operator times nan"),
    (lambda A, b: A.T @ A @ b, ValueError,
     r"the projections have shape \(5,\); expected|the volume has shape"),
    (lambda A, b: A.T @ None, TypeError,
     "the projections have elements of type object; they must be real"),
    (lambda A, b: A.matmat(b), ValueError,
     r"the matrix has shape \(5,\); expected \(36, columns\)"),
    (lambda A, b: tomos.sirt(b, A), TypeError,
     "sirt works on a tomos.Projector .*not on a ndarray"),
    (lambda A, b: tomos.sirt(A.matrix(), b), ValueError, r"the projections have shape \(5,\)"),
    (lambda A, b: tomos.fbp(2 * A, b), TypeError, "works on a tomos.Projector, not on a Composite"),
    (lambda A, b: tomos.cgls(A.matrix() * 1j, np.ones(42)), TypeError,
     "type complex.*must be real"),
])
def test_mistakes(pair, call, failure, message):
    with pytest.raises(failure, match=message):
        call(pair[0], np.ones(5, np.float32))


def test_callbacks_see_a_live_volume_they_cannot_change(slice_problem):
    A, _, y = slice_problem
    kept, copies = [], []

    def look(x, k, residual):
        with pytest.raises(ValueError, match="read-only"):
            x[...] = 0
        kept.append(x)
        copies.append(x.copy())
    x = tomos.sirt(A, y, iterations=3, callback=look)
    assert len(kept) == 3 and x.flags.writeable
    for seen in kept:  # one memory, as the documentation says
        np.testing.assert_array_equal(seen, x)
    assert not np.array_equal(copies[0], copies[1])
    np.testing.assert_array_equal(copies[0], tomos.sirt(A, y, iterations=1))
