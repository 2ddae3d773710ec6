"""The same phantom through scikit-image and ASTRA: the same orientation, and how far they agree."""
import numpy as np
import pytest
import tomos

N, VIEWS = 64, 90
THETA = np.linspace(0, np.pi, VIEWS, endpoint=False)


@pytest.fixture(scope="module")
def scene():
    """Without any symmetry, so that a wrong rotation, reflection or half pixel shows."""
    blob = tomos.Phantom([tomos.Ellipsoid((6, 9, 0), (14, 9, np.inf), (0.5, 0, 0), 0.03),
                          tomos.Ellipsoid((-12, -8, 0), (5, 8, np.inf), (0, 0, 0),
                                          0.02)], samples=8)
    A = tomos.Projector(tomos.Grid(N), tomos.parallel(THETA, columns=N))
    x = blob.volume(A.grid)[0]
    return A, x, A @ x


def far(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def report(capsys, text):
    with capsys.disabled():
        print("\n" + text)


def test_scikit_image(scene, capsys):
    transform = pytest.importorskip("skimage.transform", reason="scikit-image is not installed")
    x = scene[1]
    # It rotates about pixel N/2, half a pixel from the centre.
    A = tomos.Projector(tomos.Grid(N, centre=(-0.5, 0.5, 0)),
                        tomos.parallel(THETA, columns=N, axis=N / 2))
    y = A @ x
    theirs = transform.radon(x, np.degrees(THETA), circle=True).T
    back = transform.iradon(theirs.T, np.degrees(THETA), filter_name="ramp", circle=True)
    ours = tomos.fbp(A, y)
    report(capsys,
           f"scikit-image: radon {far(theirs, y):.4f}, mirrored {far(theirs[:, ::-1], y):.2f}; "
           f"iradon {far(back, ours):.4f}, against the truth {far(back, x):.4f}, "
           f"tomos {far(ours, x):.4f}")
    # It interpolates the rotated image in both directions, which smooths.
    assert far(theirs, y) < 0.01 and far(theirs[:, ::-1], y) > 0.5
    assert far(back, ours) < 0.06


def test_astra(scene, capsys):
    astra = pytest.importorskip("astra", reason="the ASTRA toolbox is not installed")
    A, x, y = scene
    volume = astra.create_vol_geom(N, N)
    scan = astra.create_proj_geom("parallel", 1.0, N, THETA)
    projector = astra.create_projector("linear", scan, volume)
    identity, theirs = astra.create_sino(x, projector)
    astra.data2d.delete(identity)
    identity, back = astra.create_backprojection(y, projector)
    astra.data2d.delete(identity)
    report(capsys, f"ASTRA linear: forward {far(theirs, y):.1e}, adjoint {far(back, A.T @ y):.1e}")
    assert far(theirs, y) < 1e-5 and far(back, A.T @ y) < 1e-5  # both are Joseph's
    settings = astra.astra_dict("SIRT")
    settings["ProjectorId"] = projector
    settings["ProjectionDataId"] = astra.data2d.create("-sino", scan, y)
    settings["ReconstructionDataId"] = result = astra.data2d.create("-vol", volume, 0)
    algorithm = astra.algorithm.create(settings)
    astra.algorithm.run(algorithm, 30)
    sirt, ours = astra.data2d.get(result), tomos.sirt(A, y, iterations=30)
    report(capsys,
           f"ASTRA SIRT, 30 iterations: {far(sirt, ours):.1e} apart, {far(sirt, x):.3f} and "
         f"{far(ours, x):.3f} from the truth")
    assert far(sirt, ours) < 1e-4
    astra.algorithm.delete(algorithm)
    astra.clear()
