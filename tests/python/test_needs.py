"""Options that have no effect without others are rejected, even with their default value."""
import numpy as np
import pytest
import tomos
from tomos._options import GROUPS

THETA = np.linspace(0, np.pi, 12, endpoint=False)


@pytest.fixture(scope="module")
def A():
    return tomos.Projector(tomos.Grid(8), tomos.parallel(THETA, columns=8))


def some(row):
    """The default, or a value for lists and texts."""
    return {"ints": [0], "reals": [1.0], "angles": [1.0], "lengths": [1.0], "text": "some",
            "flag": True}.get(row.kind, row.default)


ROWS = [(group, row) for group in GROUPS for row in GROUPS[group].rows.values() if row.needs]


@pytest.mark.parametrize("group, row", ROWS, ids=[f"{g}-{r.name}" for g, r in ROWS])
def test_every_need_that_defaults_do_not_meet(group, row):
    with pytest.raises(tomos.BadValue, match=f"{row.name} has no effect without"):
        GROUPS[group].fill(**{row.name: some(row)})


def test_there_are_many():
    assert len(ROWS) >= 25
    assert "needs stop=change" in tomos.sirt.__doc__


@pytest.mark.parametrize("call, message", [
    (lambda A, b: tomos.sirt(A, b, tolerance=1e-4), "tolerance has no effect without stop=change"),
    (lambda A, b: tomos.sart(A, b, seed=3), "seed has no effect without order=random"),
    (lambda A, b: tomos.sirt(A, b, noise_level=0.1),
     "noise_level has no effect without stop=discrepancy"),
    (lambda A, b: tomos.sirt(A, b, every=3), "every has no effect without checkpoint"),
    (lambda A, b: tomos.fista(A, b, huber=0.1), "huber has no effect without regulariser=huber"),
    (lambda A, b: tomos.fbp(A, b, filter_parameter=2),
     "filter_parameter has no effect without filter=tukey"),
    (lambda A, b: tomos.prepare(b[:, None], delta_beta=100),
     "delta_beta has no effect without phase=paganin"),
    (lambda A, b: tomos.prepare(b[:, None], leave_out=True),
     "leave_out has no effect without bad_views"),
    (lambda A, b: tomos.prepare(b[:, None], flat_average="mean"), "without flat fields"),
    (lambda A, b: tomos.remove_rings(b[:, None], ring_alpha=0.1),
     "ring_alpha has no effect without rings=tita"),
    (lambda A, b: tomos.Projector(A.grid, A.geometry, "line", boundary="clamp").domain,
     "boundary has no effect"),
    (lambda A, b: tomos.Phantom("ball", count=3), "count has no effect without the phantom random"),
])
def test_rejected(A, call, message):
    b = np.ones((12, 8), np.float32)
    with pytest.raises(ValueError, match=message):
        call(A, b)


def test_with_what_they_need(A):
    b = A @ np.ones((8, 8))
    tomos.sirt(A, b, iterations=2, stop="change", tolerance=1e-4)
    tomos.sart(A, b, iterations=1, order="random", seed=3)
    tomos.fbp(A, b, filter="kaiser", filter_parameter=2)
    tomos.Phantom("random", count=3)
    tomos.fan(views=4, columns=4, source_axis="10cm", source_detector=["20cm"])


@pytest.mark.parametrize("call", [
    lambda: tomos.cone(views=360, arc=360, columns=4, source_axis=10, source_detector=20),
    lambda: tomos.parallel(np.arange(180.0), columns=4),
    lambda: tomos.recon(np.ones((180, 8)), np.arange(180.0)),
    lambda: tomos.find_center(np.ones((180, 8)), np.arange(180.0)),
])
def test_degrees_are_not_taken_for_radians(call):
    with pytest.raises(ValueError,
                       match="radians are .* turns; these look like degrees: give degrees=True"):
        call()


def test_degrees_that_are_given():
    assert len(tomos.cone(views=4, arc=360, degrees=True, columns=4, source_axis=10,
                          source_detector=20)) == 4
    golden = np.arange(200) * np.radians(111.246)
    assert len(tomos.parallel(golden, columns=4, degrees=False)) == 200
    assert len(tomos.helix(views=4, arc=40, rows=2, columns=4, source_axis=10, source_detector=20,
                           pitch=1)) == 4


def test_vectors_of_a_plane():
    """ASTRA's fanflat_vec is our fan rotated by 180 degrees, with the columns reversed."""
    t = np.array([0.3, 2.0])
    s, c, o = np.sin(t), np.cos(t), np.zeros(2)
    vec = np.stack([50 * s, -50 * c, -30 * s, 30 * c, c, s], axis=1)
    ball = tomos.Phantom([tomos.Ellipsoid((3, 1, 0), (4, 2, np.inf), value=0.1)])
    ours = tomos.fan(t + np.pi, columns=32, source_axis=50, source_detector=80)
    theirs = tomos.vectors(vec, rows=1, columns=32, point_source=True)
    np.testing.assert_allclose(ball.project(theirs), ball.project(ours)[..., ::-1], atol=1e-6)
    with pytest.raises(ValueError, match="6 numbers are for one row of pixels, not for 2"):
        tomos.vectors(vec, rows=2, columns=32, point_source=True)
    with pytest.warns(UserWarning, match="lengths of 50 to 50 .*point_source=True"):
        tomos.vectors(vec, rows=1, columns=32, point_source=False)


def test_virtual_detector():
    scan = tomos.cone(views=4, rows=2, columns=8, source_axis=50, source_detector=50)
    assert np.allclose(scan.views[:, 4:7], 0)


def test_a_flag_that_is_off_is_not_given():
    A = tomos.Projector(tomos.Grid(8), tomos.parallel(views=6, columns=8))
    tomos.sirt(A, A @ np.ones((1, 8, 8), "float32"), iterations=1, keep_best=False, resume=False)
