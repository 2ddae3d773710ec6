"""Derivatives with respect to the poses of views, through NumPy and PyTorch."""
import numpy as np
import pytest
import tomos


def _blobs(n, rng):
    """A smooth volume, for finite differences of a piecewise smooth projector."""
    z, y, x = np.mgrid[:n, :n, :n] - (n - 1) / 2
    total = np.zeros((n, n, n))
    for _ in range(6):
        c = rng.uniform(-n / 5, n / 5, 3)
        total += rng.uniform(0.5, 1) * np.exp(
            -((x - c[0]) ** 2 + (y - c[1]) ** 2 + (z - c[2]) ** 2) / (2 * (n / 9) ** 2))
    return total.astype(np.float32)


def _scan(kind):
    options = dict(views=9, rows=20, columns=24, start=0.1)
    if kind == "cone":
        options.update(source_axis=80, source_detector=120, pixel=1.4)
    if kind == "laminography":
        options.update(tilt=0.5)
    return getattr(tomos, kind)(**options)


@pytest.fixture(params=["parallel", "cone", "laminography"])
def A(request):
    return tomos.Projector(tomos.Grid((24, 24, 24)), _scan(request.param), backend="cpu")


def test_the_jacobian_is_that_of_differences(A, rng):
    x, step = _blobs(24, rng), 0.01
    J = A.pose_jacobian(x)
    p = rng.normal(size=(9, 6)) * [1, 1, 1, 0.1, 0.1, 0.1]
    ahead = tomos.Projector(A.grid, A.geometry.moved(step * p), backend="cpu") @ x
    behind = tomos.Projector(A.grid, A.geometry.moved(-step * p), backend="cpu") @ x
    expected = (ahead - behind) / (2 * step)
    assert np.linalg.norm(J @ p - expected) < 1e-2 * np.linalg.norm(expected)


def test_columns_and_adjoint(A, rng):
    x = rng.random(A.domain, np.float32)
    J, D = A.pose_jacobian(x), A.pose_derivative(x)
    p, y = rng.normal(size=(9, 6)), rng.normal(size=A.range)
    assert np.allclose(J @ p, np.einsum("vnrc,vn->vrc", D, p), rtol=1e-4, atol=1e-3)
    assert abs(np.vdot(J @ p, y) - np.vdot(p, J.T @ y)) < 1e-5 * np.linalg.norm(J @ p) * \
        np.linalg.norm(y)
    assert (J.T @ y).shape == (9, 6) and J.shape == (9 * 20 * 24, 54)


def test_mistakes(A):
    with pytest.raises(ValueError, match=r"shape \(9, 3\); expected \(9, 6\)"):
        A.geometry.moved(np.zeros((9, 3)))
    with pytest.raises(tomos.Unsupported, match="'voxel' has no derivatives"):
        tomos.Projector(A.grid, A.geometry, model="voxel").pose_derivative(np.zeros(A.domain))
    with pytest.raises(ValueError, match="the volume"):
        A.pose_jacobian(np.zeros((2, 3, 4)))


def test_torch_gradients(A, rng):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import tomos.torch
    x = torch.from_numpy(_blobs(24, rng)).requires_grad_()
    poses = torch.from_numpy(rng.normal(size=(9, 6)) * [2, 2, 2, 0.3, 0.3, 0.3])
    poses.requires_grad_()
    weights = torch.from_numpy(rng.normal(size=A.range)).float()
    (tomos.torch.posed(A, x, poses) * weights).sum().backward()
    moved = tomos.Projector(A.grid, A.geometry.moved(poses.detach().numpy()), backend="cpu")
    assert np.allclose(x.grad, moved.T @ weights.numpy(), atol=1e-4)
    for _ in range(3):
        d = rng.normal(size=(9, 6)) * [1, 1, 1, 0.1, 0.1, 0.1]
        values = [float((tomos.torch.posed(A, x, poses + s * torch.from_numpy(d)).double()
                         * weights).sum()) for s in (0.01, -0.01)]
        expected, found = (values[0] - values[1]) / 0.02, float((poses.grad * d).sum())
        scale = np.linalg.norm(poses.grad * d)
        assert abs(found - expected) < 2e-2 * scale


def test_torch_batches(rng):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import tomos.torch
    A = tomos.Projector(tomos.Grid(8), tomos.parallel(views=5, columns=8), backend="cpu")
    x = torch.rand(3, 8, 8)
    one = [torch.zeros(5, 6, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    y = tomos.torch.posed(A, x, one[0])
    assert y.shape == (3, 5, 8) and torch.allclose(y, tomos.torch.forward(A, x), atol=1e-5)
    y.square().sum().backward()
    for part in x:
        tomos.torch.posed(A, part, one[1]).square().sum().backward()
    assert torch.allclose(one[0].grad, one[1].grad)


def test_align(rng):
    scan = tomos.parallel(views=40, rows=32, columns=32, arc=360, degrees=True)
    A = tomos.Projector(tomos.Grid((32, 32, 32)), scan, backend="cpu")
    phantom = tomos.Phantom([tomos.Ellipsoid(axes=(11, 9, 10), value=0.3)] + [
        tomos.Ellipsoid(rng.uniform(-5, 5, 3), rng.uniform(1.5, 3, 3), value=0.4)
        for _ in range(8)])
    poses = np.zeros((40, 6))
    poses[:, 2] = rng.normal(size=40)
    poses[:, 2] -= poses[:, 2].mean()
    y = phantom.project(scan.moved(poses))
    found = tomos.align(A, y)
    assert np.sqrt(np.mean((found - poses)[:, :3] ** 2)) < 0.1
    with pytest.raises(TypeError, match="no option 'roundz'; did you mean 'rounds'"):
        tomos.align(A, y, roundz=3)
    with pytest.raises(ValueError, match="expected"):
        tomos.align(A, y[1:])


@pytest.mark.parametrize("rows", [16, 32])
def test_align_an_object_that_is_cut_off(rows, recwarn):
    scan = tomos.parallel(views=24, rows=rows, columns=24, arc=360, degrees=True)
    ball = tomos.Phantom([tomos.Ellipsoid(axes=(9, 8, 12), value=0.3)])
    tomos.align(tomos.Projector(scan.grid(), scan, backend="cpu"), ball.project(scan), rounds=1,
                round_iterations=1)
    said = [str(w.message) for w in recwarn if "beyond the first or last row" in str(w.message)]
    assert len(said) == (rows == 16)
