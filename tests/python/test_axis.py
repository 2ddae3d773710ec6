"""The rotation axis: found to a tenth of a pixel, by every name; what recon makes of it. The pose
of the detector."""
import dataclasses
import pickle

import numpy as np
import pytest
import tomos

COLUMNS = 160
HALF = np.linspace(0, np.pi, 150, endpoint=False)
FULL = np.linspace(0, 2 * np.pi, 240, endpoint=False)
HEAD = tomos.Phantom("shepp-logan-2d-modified", radius=60)


def scan(axis, theta=HALF, noise=0.01, **options):
    clean = HEAD.project(tomos.parallel(theta, columns=COLUMNS, axis=axis, **options))
    return tomos.add_noise(clean, noise) if noise else clean


@pytest.mark.parametrize("axis", [79.5, 84.27, 73.6])
@pytest.mark.parametrize("theta", [HALF, FULL], ids=["180 degrees", "360 degrees"])
def test_a_tenth_of_a_pixel(axis, theta):
    found = tomos.find_center(scan(axis, theta), theta)
    assert abs(found - axis) < 0.1 and found.confidence > 0.2
    assert found.full_turn == (theta is FULL) and not found.at_edge and not found.half


def test_half_acquisition():
    found = tomos.find_center(scan(30.4, FULL), FULL)
    assert abs(found - 30.4) < 0.1 and found.half


def test_any_order_kind_and_unit():
    tomo = scan(82.3, rows=3)
    found = tomos.find_center(tomo, HALF)
    assert tomos.find_center(tomo.swapaxes(0, 1), HALF, sinogram_order=True) == found
    assert abs(tomos.find_center(tomo, np.degrees(HALF), degrees=True) - found) < 1e-6
    assert tomos.find_center(tomo.astype(float), list(HALF)) == found
    assert tomos.find_center(tomo[:, 1], HALF) == tomos.find_center(tomo, HALF, 1)
    assert tomos.find_center(tomo, HALF, ind=-2) == tomos.find_center(tomo, HALF, ind=1)
    for method in ("pairs", "vo", "sharpness"):
        one = tomos.find_center(tomo, HALF, axis_method=method)
        assert abs(one - 82.3) < 0.3 and method in one.answers


def test_where_to_look():
    tomo = scan(82.3)
    near = tomos.find_center(tomo, HALF, init=79)
    assert near.range == (63, 95) and abs(near - 82.3) < 0.1
    outside = tomos.find_center(tomo, HALF, axis_range=(60, 75), axis_method="pairs")
    assert outside.range == (60, 75) and (outside.at_edge or outside.confidence < 0.3)


def test_the_number_and_what_is_known_of_it():
    found = tomos.find_center(scan(82.3), HALF)
    assert isinstance(found, float)
    assert f"{found:.1f}" == "82.3" and str(found) == repr(float(found))
    assert "confidence 0." in repr(found) and "pairs 82." in repr(found)
    again = pickle.loads(pickle.dumps(found))
    assert again == found and again.confidence == found.confidence


def test_recon_finds_it():
    tomo = scan(86.4)
    rec = tomos.recon(tomo, HALF)
    np.testing.assert_array_equal(rec,
                                  tomos.recon(tomo, HALF, center=tomos.find_center(tomo, HALF)))
    known = tomos.recon(tomo, HALF, center=86.4)
    middle = tomos.recon(tomo, HALF, center=79.5)
    assert tomos.compare(known, rec).relative_l2 < 0.1
    assert tomos.compare(known, middle).relative_l2 > 0.5


def test_recon_without_an_axis_that_can_be_found():
    with pytest.raises(ValueError,
                       match="cannot find the axis: 5 views of 160.*center=79.5 if it is"):
        tomos.recon(scan(80, HALF[:5]), HALF[:5])
    with pytest.raises(ValueError, match="cover .* of 180 degrees .*center=79.5"):
        tomos.recon(scan(80, HALF[:90]), HALF[:90])
    nothing = np.zeros((150, 1, COLUMNS), np.float32)
    with pytest.warns(UserWarning, match="the axis is uncertain: <tomos.Axis .*confidence 0.00"):
        tomos.recon(nothing, HALF)


def test_says_whether_it_is_certain():
    axis = tomos.find_center(scan(86.4), HALF)
    assert axis.certain and "standard error" in repr(axis) and ", certain (confidence" in repr(axis)
    assert "certain (confidence" in axis._repr_html_()
    nothing = tomos.find_center(np.zeros((150, 1, COLUMNS), np.float32), HALF)
    assert not nothing.certain and ", uncertain (confidence 0.00)" in repr(nothing)


@pytest.mark.parametrize("options, failure, message", [
    (dict(ind=3), ValueError, r"ind=3 is not one of the 2 rows of tomo \(150, 2, 160\)"),
    (dict(init=170), ValueError, "init=170 is not within columns 0 to 159"),
    (dict(init=80, axis_range=(70, 90)), TypeError, "init and axis_range both"),
    (dict(axis_range=(70,)), ValueError, "LOW,HIGH"),
    (dict(axis_method="vos"), ValueError, "did you mean 'vo'"),
    (dict(tol=0.5), TypeError, "tomos.find_center has no option 'tol'"),
    (dict(theta=HALF[:2]), ValueError, r"theta has shape \(2,\) for 150 views.*sinogram_order"),
])
def test_rejected(options, failure, message):
    with pytest.raises(failure, match=message):
        tomos.find_center(**{"tomo": np.ones((150, 2, COLUMNS)), "theta": HALF, **options})


def test_values_that_are_not_finite():
    tomo = scan(80)
    tomo[3, 0, 7] = np.nan
    with pytest.raises(ValueError, match=r"not finite, the first at \[3\]\[0\]\[7\]"):
        tomos.find_center(tomo, HALF)


# ---- the whole pose ---------------------------------------------------------------------------

TURN = dict(views=120, rows=64, columns=64, source_axis=150, source_detector=200)
BALLS = tomos.Phantom("random", radius=20)


def placed(**options):
    return tomos.add_noise(BALLS.project(tomos.cone(**TURN, **options)), 0.005)


def test_the_pose_of_the_detector():
    pose = tomos.find_pose(placed(axis=33, roll=0.02), tomos.cone(**TURN))
    assert list(pose.value) == list(pose.error) == [
        "axis", "axis_row", "roll", "slant", "swivel", "source_detector"]
    assert abs(pose.value["axis"] - 33) < 4 * pose.error["axis"] < 0.4
    assert abs(pose.value["roll"] - 0.02) < 4 * pose.error["roll"] < 0.02
    assert pose.after < pose.before and not pose.reversed and not pose.doubt
    assert "roll 1." in repr(pose) and "roll" in pose._repr_html_()
    known = tomos.cone(**{**TURN, **pose.value})
    np.testing.assert_allclose(pose.geometry.views, known.views, atol=1e-6)
    assert tomos.fdk(tomos.Projector(None, pose.geometry), placed(axis=33)).shape == (64, 64, 64)


def test_the_direction_and_what_is_known():
    backwards = tomos.cone(**TURN, axis=33, arc=-2 * np.pi)
    pose = tomos.find_pose(BALLS.project(backwards), tomos.cone(**TURN),
                           unknown=["roll", "axis_row"])
    assert pose.reversed and abs(pose.value["axis"] - 33) < 0.1 and ", reversed" in repr(pose)
    assert [n for n in pose.error if pose.error[n] == 0] == ["slant", "swivel", "source_detector"]
    one = tomos.find_pose(BALLS.project(backwards), tomos.cone(**TURN), unknown="axis-row,roll")
    assert one.value == pose.value and one.geometry == pose.geometry
    rounded = dataclasses.replace(pose, value={**pose.value, "slant": -3e-18})
    assert "slant 0 degrees (as given)" in repr(rounded)


def test_a_pose_that_is_uncertain():
    noise = np.random.default_rng(1).normal(size=(120, 64, 64)).astype(np.float32)
    with pytest.warns(UserWarning, match="the pose is uncertain: rays measured from both sides"):
        pose = tomos.find_pose(noise, tomos.cone(**TURN))
    assert pose.doubt and ", uncertain" in repr(pose)


CORNER = np.ones((120, 64, 64))
CORNER[0, 0, 0] = np.nan  # far from the midplane


@pytest.mark.parametrize("options, failure, message", [
    (dict(unknown=["rol"]), ValueError, "'rol' is not a value of the pose"),
    (dict(roll=1), TypeError, "tomos.find_pose has no option 'roll'"),
    (dict(scan=HALF), TypeError, "scan is a ndarray; find_pose needs a tomos.Geometry"),
    (dict(y=np.ones((2, 64, 64))), ValueError, r"shape \(2, 64, 64\); expected \(120, 64, 64\)"),
    (dict(y=np.ones((64, 120, 64))), ValueError, r"shape \(64, 120, 64\); expected"),
    (dict(y=CORNER), ValueError, r"has 1 value that is not finite, the first at \[0\]\[0\]\[0\]"),
    (dict(scan=tomos.parallel(views=120, rows=64, columns=64)), NotImplementedError,
     "found for point sources"),
])
def test_no_pose(options, failure, message):
    with pytest.raises(failure, match=message):
        tomos.find_pose(**{"y": np.ones((120, 64, 64)), "scan": tomos.cone(**TURN), **options})
