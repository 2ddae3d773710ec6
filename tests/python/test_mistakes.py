"""Mistakes of first-time users: each gives a message with a remedy."""
import numpy as np
import pytest
import tomos

THETA = np.linspace(0, np.pi, 60, endpoint=False)


@pytest.fixture(scope="module")
def A():
    return tomos.Projector(tomos.Grid(32), tomos.parallel(THETA, columns=32))


@pytest.mark.parametrize("call, message", [
    (lambda A, b: tomos.fbp(A, b, "hann"), r"tomos.fbp\(\) takes 2 positional arguments"),
    (lambda A, b: tomos.fbp(A), r"tomos.fbp\(\) missing 1 required positional argument: 'b'"),
    (lambda A, b: tomos.fbp(b, A),
     "filtered back projection works on a tomos.Projector, not on a ndarray"),
    (lambda A, b: tomos.sirt(A, b, 50), "x0=50: the third argument is the image to start from"),
    (lambda A, b: tomos.sirt(A, b, iterations="5"), "iterations='5' is not of the kind"),
    (lambda A, b: tomos.sirt(A, b, history=[]), "history is a tomos.History, not a list"),
    (lambda A, b: tomos.Grid(64.0), "shape of a grid has whole numbers, not 64.0"),
    (lambda A, b: tomos.phantom("ball", "32"), "shape of a grid has whole numbers, not '32'"),
    (lambda A, b: tomos.parallel(180, columns=3),
     r"angles=180 is not a list; views=180 gives the number"),
    (lambda A, b: A * b, "applied with @"),
    (lambda A, b: b @ A, "applied with @"),
    (lambda A, b: tomos.recon(b, THETA, centre=3),
     "tomos.recon with fbp has no option 'centre'; did you mean 'center'"),
    (lambda A, b: tomos.recon(b, THETA, num_iter=3),
     "tomos.recon with fbp has no option 'iterations'"),
    (lambda A, b: tomos.recon(b, geometry=3), "geometry is a tomos.Geometry, not a int"),
    (lambda A, b: tomos.threads("4"), "'str' object cannot be interpreted as an integer"),
    (lambda A, b: tomos.find_center(b), r"tomos.find_center\(\) missing 1 required"),
])
def test_mistakes(A, call, message):
    with pytest.raises(TypeError, match=message):
        call(A, np.ones(A.range, np.float32))


def test_unknown_names():
    with pytest.raises(AttributeError, match="'tomos' has no attribute 'sirtt'"):
        tomos.sirtt
    pytest.importorskip("torch", reason="PyTorch is not installed")
    assert tomos.torch.forward
