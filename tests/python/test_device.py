"""Arrays in the memory of a backend, the CPU, OpenCL and CUDA: creation, copies, use."""
import copy
import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tomos
from tomos import _arrays


def opened(name):
    try:
        tomos.empty(1, name)
    except tomos.Error as failure:
        return str(failure)
    return None


@pytest.fixture(params=["cpu", "opencl", "cuda"])
def place(request):
    missing = opened(request.param)
    if missing:
        pytest.skip(missing)
    return request.param


def make(place):
    scan = tomos.cone(views=12, rows=7, columns=9, source_axis=30, source_detector=40)
    return tomos.Projector(tomos.Grid((6, 8, 5)), scan, backend=place)


def test_there_and_back(place, rng):
    a = rng.random((3, 4, 5), np.float32)
    for host in (a, a[::-1, :, ::2], a.astype(float), a[0], a[0, 0], np.asfortranarray(a)):
        array = tomos.to_device(host, place)
        assert (array.shape, array.ndim, array.size) == (host.shape, host.ndim, host.size)
        np.testing.assert_array_equal(array.to_host(), host)
    out = np.zeros((3, 4, 10), np.float32)[:, :, ::2]
    array = tomos.to_device(a, place)
    assert array.to_host(out) is out
    np.testing.assert_array_equal(out, a)
    array[...] = 3
    assert (array.to_host() == 3).all()
    array[...] = tomos.to_device(a, place)
    np.testing.assert_array_equal(array.reshape(12, 5).to_host(), a.reshape(12, 5))
    for again in (copy.copy(array), pickle.loads(pickle.dumps(array))):
        again[...] = 0
        np.testing.assert_array_equal(array.to_host(), a)
    assert repr(array) == f"<tomos.DeviceArray 3 x 4 x 5 on {place}>"
    assert array.nbytes == 240 and len(array) == 3


def test_operators_and_methods_in_place(place, rng):
    A = make(place)
    x, y = rng.random(A.domain, np.float32), rng.random(A.range, np.float32)
    dx, dy = tomos.to_device(x, place), tomos.to_device(y, place)
    for ours, theirs in [(A @ dx, A @ x), (A.T @ dy, A.T @ y), (tomos.fdk(A, dy), tomos.fdk(A, y)),
                         (tomos.fbp_transpose(A, dx), tomos.fbp_transpose(A, x)),
                         (tomos.sirt(A, dy, iterations=3), tomos.sirt(A, y, iterations=3)),
                         (tomos.cgls(A, dy, dx, iterations=2), tomos.cgls(A, y, x, iterations=2)),
                         (A @ dx.reshape(240), (A @ x).ravel())]:
        assert isinstance(ours, tomos.DeviceArray) and ours.backend == place
        np.testing.assert_allclose(ours.to_host(), theirs, rtol=1e-5, atol=1e-5)
    out = tomos.empty(A.range, place)
    assert A(x, out=out) is out and A(dx, out=out) is out
    np.testing.assert_allclose(out.to_host(), A @ x, rtol=1e-5, atol=1e-5)
    assert tomos.compare(A @ x, out).relative_l2 < 1e-6
    view = _arrays.read_view(dx, A.domain, 0, "x")
    assert view.struct.data == dx._struct.data and view.struct.device == dx.device


def test_callback_sees_the_array(place, rng):
    A = make(place)
    y = A @ rng.random(A.domain, np.float32)
    seen = []
    x = tomos.sirt(A, tomos.to_device(y, place), iterations=3,
                   callback=lambda x, k, residual: seen.append(x.to_host()))
    assert len(seen) == 3 and isinstance(x, tomos.DeviceArray)
    np.testing.assert_array_equal(seen[2], x.to_host())
    np.testing.assert_allclose(seen[1], tomos.sirt(A, y, iterations=2), rtol=1e-5, atol=1e-6)


def test_slices_and_recon(place):
    theta = np.linspace(0, np.pi, 60, endpoint=False)
    tomo = tomos.Phantom("ball", radius=12,
                         value=0.02).project(tomos.parallel(theta, columns=40, axis=20.3))
    array = tomos.to_device(tomo[:, 0], place)
    rec = tomos.recon(array, theta, backend=place)
    assert rec.shape == (40, 40) and abs(rec.to_host()[20, 20] - 0.02) < 1e-3
    assert abs(tomos.find_center(array, theta) - 20.3) < 0.1


def test_views_of_the_memory(place):
    array = tomos.to_device(np.arange(6.0).reshape(2, 3), place)
    if place == "cpu":
        shown = np.asarray(array)
        del array
        gc.collect()
        shown += 1
        assert shown.tolist() == [[1, 2, 3], [4, 5, 6]]
        return
    with pytest.raises(TypeError, match=r"not in host memory; to_host\(\) copies it"):
        np.asarray(array)
    assert hasattr(array, "__cuda_array_interface__") == (place == "cuda")


def test_memory_is_given_back(place):
    for _ in range(50):
        tomos.empty((64, 512, 512), place)  # 64 MiB each


@pytest.mark.parametrize("call, failure, message", [
    (lambda: tomos.empty((1, 2, 3, 4)), ValueError,
     r"shape \(1, 2, 3, 4\) has 4 axes; it may have 1 to 3"),
    (lambda: tomos.empty((2, -3), "cpu"), tomos.BadValue, "-3"),
    (lambda: tomos.empty((1 << 40, 1 << 20), "cpu"), tomos.Error, "1099511627776|bytes|memory"),
    (lambda: tomos.empty(4, "abacus"), tomos.Error, "abacus"),
    (lambda: tomos.empty(4, 0), TypeError, "a backend is one of the names .*auto.*, not 0"),
    (lambda: tomos.empty((2, 3), "cpu").reshape(7), ValueError, r"cannot have the shape \(7,\)"),
    (lambda: tomos.empty((2, 3), "cpu").to_host(np.zeros((2, 3))), TypeError, "float32"),
    (lambda: tomos.empty((2, 3), "cpu").to_host(np.zeros((3, 2), "f4")), ValueError,
     r"out has shape \(3, 2\)"),
    (lambda: tomos.empty((2, 3), "cpu").__setitem__(0, 1), TypeError, "assigned as a whole"),
    (lambda: tomos.empty((2, 3), "cpu").__setitem__(..., np.zeros(4)), ValueError, "broadcast"),
    (lambda: tomos.to_device(["a"], "cpu"), ValueError, "'a'"),
])
def test_rejected(call, failure, message):
    with pytest.raises(failure, match=message):
        call()


def test_start_images_of_any_kind(slice_problem):
    A, x, y = slice_problem
    wanted = tomos.sirt(A, y, x, iterations=1)
    for start in (x[0], x.tolist(), x.ravel(), tomos.to_device(x, "cpu")):
        np.testing.assert_array_equal(tomos.sirt(A, y, start, iterations=1), wanted)
    with pytest.raises(ValueError, match=r"x0 has shape \(32, 1\); expected \(1, 32, 32\)"):
        tomos.sirt(A, y, x[0][:, :1])


def test_on_a_card():
    """All of gpu_check.py, if there are a GPU and PyTorch."""
    missing = opened("cuda")
    if missing:
        pytest.skip(missing)
    pytest.importorskip("torch", reason="PyTorch is not installed")
    script = Path(__file__).with_name("gpu_check.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                          timeout=300,
                          env={**os.environ, "PYTHONPATH": str(Path(tomos.__file__).parents[1])})
    assert done.returncode == 0, done.stdout + done.stderr
