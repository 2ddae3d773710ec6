"""Tensors of PyTorch and gradients through A, A' and filtered back projection."""
import doctest

import numpy as np
import pytest
import tomos

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import tomos.torch  # noqa: E402


@pytest.fixture
def A():
    return tomos.Projector(tomos.Grid(6), tomos.parallel(views=5, columns=6))


def test_tensors_are_used_in_place(A, rng):
    x = torch.rand(*A.domain)
    y = A @ x
    assert isinstance(y, torch.Tensor) and y.shape == A.range
    np.testing.assert_array_equal(y.numpy(), A @ x.numpy())
    out = torch.empty(A.range)
    assert A(x, out=out) is out and torch.equal(out, y)
    assert isinstance(tomos.sirt(A, y), torch.Tensor)
    with pytest.raises(TypeError, match="use tomos.torch"):
        A @ x.requires_grad_()


# float32 inside: differences over steps of 0.1 of linear maps are good to about 1e-4.
LOOSE = dict(eps=0.1, atol=2e-3, rtol=2e-3, nondet_tol=1e-5)


@pytest.mark.parametrize("name", ["forward", "adjoint", "fbp"])
def test_gradcheck(A, name):
    torch.manual_seed(1)
    function = getattr(tomos.torch, name)
    shape = (6, 6) if name == "forward" else (5, 6)
    x = torch.rand(2, *shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: function(A, x), (x,), **LOOSE)
    assert torch.autograd.gradgradcheck(lambda x: function(A, x).square(), (x,), **LOOSE)


def test_batches_and_axes(A):
    x = torch.rand(3, 2, 1, 6, 6)
    y = tomos.torch.forward(A, x)
    assert y.shape == (3, 2, 5, 1, 6) and tomos.torch.forward(A, x[:, :, 0]).shape == (3, 2, 5, 6)
    np.testing.assert_array_equal(y[2, 1].numpy(), A @ x[2, 1].numpy())
    with pytest.raises(ValueError, match="the volume has shape"):
        tomos.torch.forward(A, torch.zeros(5, 5))
    with pytest.raises(ValueError, match="gradients need a matched pair"):
        tomos.torch.Operator(tomos.Projector(A.grid, A.geometry, back="voxel"))


def test_modules_learn(A):
    truth = torch.rand(6, 6)
    project = tomos.torch.Operator(A)
    y = project(truth)
    x = torch.zeros(6, 6, requires_grad=True)
    optimiser = torch.optim.SGD([x], lr=1 / A.norm() ** 2)
    for _ in range(50):
        optimiser.zero_grad()
        loss = 0.5 * (project(x) - y).square().sum()
        loss.backward()
        torch.testing.assert_close(x.grad, project.T(project(x.detach()) - y))
        optimiser.step()
    assert loss < 0.05 * 0.5 * y.square().sum()
    layer = tomos.torch.FBP(A, filter="hann")
    np.testing.assert_array_equal(layer(y).numpy(), tomos.fbp(A, y.numpy(), filter="hann"))
    assert "hann" in repr(layer) and "transposed" in repr(project.T)


def test_the_example():
    test = doctest.DocTestParser().get_doctest(tomos.torch.__doc__,
                                               {"tomos": tomos, "torch": torch},
                                               "tomos.torch", None, 0)
    assert doctest.DocTestRunner().run(test).failed == 0
