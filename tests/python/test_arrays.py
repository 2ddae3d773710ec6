"""Arrays of every stride and type: used without a copy, converted, or rejected."""
import numpy as np
import pytest
import tomos
from tomos import _arrays


def dense(A):
    return A.matrix().toarray()


def test_against_the_matrix(volume_operator, rng):
    A = volume_operator
    pytest.importorskip("scipy")
    M = dense(A)
    x = rng.random(A.domain, np.float32)
    y = rng.random(A.range, np.float32)
    assert M.shape == A.shape == (630, 240) and A.T.shape == (240, 630)
    np.testing.assert_allclose((A @ x).ravel(), M @ x.ravel(), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose((A.T @ y).ravel(), M.T @ y.ravel(), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("change", [
    lambda a: a[::-1], lambda a: a[:, ::-1, ::-1], lambda a: a.astype(np.float64),
    lambda a: a.astype(">f4"), lambda a: np.asfortranarray(a), lambda a: a.ravel(),
    lambda a: np.repeat(a, 2, axis=2)[:, :, ::2], lambda a: a.swapaxes(0, 2).copy().swapaxes(0, 2),
    lambda a: a.tolist(), lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float32)
    .reshape(a.shape)])
def test_any_stride_and_type(volume_operator, rng, change):
    A = volume_operator
    x = rng.random(A.domain, np.float32)
    changed = change(x)
    same = np.asarray(changed, np.float32).reshape(A.domain).copy()
    np.testing.assert_array_equal(np.asarray(A @ changed).reshape(A.range), A @ same)


def test_integers_and_bools(volume_operator):
    A = volume_operator
    ones = np.ones(A.domain, np.float32)
    for kind in (bool, np.uint16, np.int64, np.float16):
        np.testing.assert_array_equal(A @ ones.astype(kind), A @ ones)


def test_float32_is_used_in_place():
    for a in (np.zeros((3, 4, 5), np.float32), np.zeros((6, 8, 10), np.float32)[::-2, ::2, ::2]):
        view = _arrays.read_view(a, (3, 4, 5), 0, "a")
        assert view.struct.data == a.ctypes.data
        assert [4 * s for s in view.struct.stride] == list(a.strides)


def test_axes_of_results(slice_problem):
    A, x, y = slice_problem
    assert x.shape == (1, 32, 32) and y.shape == (48, 1, 32)
    flat = A @ x[0]
    assert flat.shape == (48, 32) and (A.T @ flat).shape == (32, 32)
    np.testing.assert_array_equal(flat, y[:, 0])
    assert (A @ x.ravel()).shape == (48 * 32,)
    np.testing.assert_array_equal(A.T @ y.ravel(), (A.T @ y).ravel())


def test_out(volume_operator, rng):
    A = volume_operator
    x = rng.random(A.domain, np.float32)
    larger = np.zeros((2 * A.range[0], A.range[1], A.range[2] + 3), np.float32)
    out = larger[::2, :, 1:-2]
    assert A(x, out=out) is out
    np.testing.assert_array_equal(out, A @ x)
    assert not larger[1::2].any() and not larger[:, :, 0].any()


@pytest.mark.parametrize("call, failure, message", [
    (lambda A: A @ np.zeros((6, 8, 4)), ValueError,
     r"volume has shape \(6, 8, 4\); expected \(6, 8, 5\)"),
    (lambda A: A @ np.zeros((8, 5)), ValueError, r"shape \(8, 5\)"),
    (lambda A: A @ np.zeros(7), ValueError, r"or \(240,\)"),
    (lambda A: A.T @ np.zeros((10, 9, 7)), ValueError, r"projections have shape \(10, 9, 7\)"),
    (lambda A: A @ np.zeros(A.domain, complex), TypeError, "elements of type complex128"),
    (lambda A: A @ np.full(A.domain, "a"), TypeError, "must be real numbers"),
    (lambda A: A(np.zeros(A.domain), out=np.zeros(A.range)), TypeError,
     "must be float32 and writable"),
    (lambda A: A(np.zeros(A.domain), out=np.zeros((1, 1, 1), "f4")), ValueError, r"out has shape"),
    (lambda A: A(np.zeros(A.domain), out=np.zeros((630, 2), "f4")[:, 0].reshape(90, 7)[:, ::-1]),
     ValueError, r"out has shape \(90, 7\)"),
])
def test_rejected(volume_operator, call, failure, message):
    with pytest.raises(failure, match=message):
        call(volume_operator)


def test_read_only_results_are_rejected(volume_operator):
    A = volume_operator
    out = np.zeros(A.range, np.float32)
    out.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        A(np.zeros(A.domain, np.float32), out=out)


class OnCard:
    """Acts as an array on a GPU."""

    def __init__(self, shape, typestr="<f4", strides=None, ordinal=2):
        self.shape, self.ndim = shape, len(shape)
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (4096, False),
                                         "strides": strides, "version": 2}
        self.__dlpack_device__ = lambda: (2, ordinal)


def test_arrays_on_a_card_are_passed_in_place():
    view = _arrays.read_view(OnCard((3, 4, 5)), (3, 4, 5), 0, "x")
    s = view.struct
    assert (s.data, list(s.shape), list(s.stride), s.device) == (4096, [3, 4, 5], [20, 5, 1], 3)
    s = _arrays.read_view(OnCard((4, 5), strides=(80, 8)), (1, 4, 5), 0, "x").struct
    assert (list(s.shape), list(s.stride)) == ([1, 4, 5], [20, 20, 2])
    s = _arrays.read_view(OnCard((60,)), (3, 4, 5), 0, "x").struct
    assert list(s.stride) == [20, 5, 1]
    with pytest.raises(TypeError, match="elements of type <f8; they must be float32"):
        _arrays.read_view(OnCard((3, 4, 5), "<f8"), (3, 4, 5), 0, "x")
    with pytest.raises(ValueError, match="x has shape"):
        _arrays.read_view(OnCard((3, 4)), (3, 4, 5), 0, "x")


def test_a_gpu_other_than_the_backend_is_rejected(volume_operator):
    A = tomos.Projector(volume_operator.grid, volume_operator.geometry, backend="cpu")
    with pytest.raises(TypeError, match="need `out=`"):
        A @ OnCard(A.domain)
    with pytest.raises(tomos.Error, match="device 3"):
        A(OnCard(A.domain), out=np.zeros(A.range, np.float32))


def test_dlpack_memory_is_read_in_place():
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, ::-1]
    shape, strides, address, kind = _arrays._dlpack_memory(a)
    assert (shape, strides, address, kind) == ((2, 3, 4), (12, -4, 1), a.ctypes.data, "<f4")
    assert _arrays._dlpack_memory(a.astype(float))[3] == "DLPack code 2 of 64 bits"
