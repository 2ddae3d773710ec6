"""Grids, scans, files, phantoms."""
import pickle

import numpy as np
import pytest
import tomos


def test_grid():
    grid = tomos.Grid((4, 5, 6), voxel=(1, 2, 3), centre=(10, 20, 30))
    assert grid.shape == (4, 5, 6) and grid.step == (1, -2, 3) and grid.centre == (10, 20, 30)
    assert grid.first == (7.5, 24, 25.5)
    assert repr(grid) == ("<tomos.Grid 4 x 5 x 6 (z, y, x), voxels of 1 x 2 x 3, centred on "
                          "(10, 20, 30)>")
    assert pickle.loads(pickle.dumps(grid)) == grid and hash(grid) == hash(tomos.Grid.from_steps(
        grid.shape, grid.first, grid.step))
    assert tomos.Grid(8).shape == (1, 8, 8) and tomos.Grid((8, 9)).shape == (1, 8, 9)


@pytest.mark.parametrize("call, message", [
    (lambda: tomos.Grid((1, 2, 3, 4)), r"not \(1, 2, 3, 4\)"),
    (lambda: tomos.Grid(0), "0"),
    (lambda: tomos.Grid(4, voxel=0), "0"),
    (lambda: tomos.Grid(4, centre=(1, 2)), r"centre of a grid is \(x, y, z\)"),
    (lambda: tomos.parallel([0, np.nan], columns=4),
     "its angle is nan degrees; it must be between"),
    (lambda: tomos.parallel([0.0]), "columns"),
    (lambda: tomos.fan([0.0], columns=4), "needs source_axis"),
    (lambda: tomos.cone([0.0], columns=4, source_axis=9, source_detector=3),
     "must not be less than source_axis, 9"),
    (lambda: tomos.parallel([0, 1, 2], columns=4, axis=[1, 2]), "axis has 2 values for 3 views"),
    (lambda: tomos.lebedev(views=4, columns=4), "4"),
    (lambda: tomos.vectors(np.zeros((2, 11)), 1, 1, False), "have the shape \\(views, 12\\)"),
    (lambda: tomos.vectors(np.zeros((2, 12)), 1, 1, False), "view 0"),
])
def test_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_unknown_options_are_named():
    with pytest.raises(TypeError,
                       match="tomos.parallel has no option 'colums'; did you mean 'columns'"):
        tomos.parallel(views=4, colums=3)
    with pytest.raises(TypeError, match="no option 'tilt'"):
        tomos.parallel(views=4, columns=3, tilt=3)


def test_scans():
    t = np.radians([0, 30, 100])
    scan = tomos.cone(t, rows=2, columns=4, source_axis=10, source_detector=15, pixel=0.5)
    views = scan.views
    np.testing.assert_allclose(views[:, :2], 10 * np.stack([-np.sin(t), np.cos(t)], 1), atol=1e-12)
    assert scan.point_source and (views[:, 3] == 1).all() and len(scan) == 3
    assert scan == tomos.cone(np.degrees(t), degrees=True, rows=2, columns=4, source_axis=10,
                              source_detector=15, pixel=0.5) or np.allclose(scan.views, views)
    assert repr(scan) == ("<tomos.Geometry cone: 3 views over 100 degrees, 2 x 4 pixels of "
                          "0.5 x 0.5>")
    again = tomos.vectors(scan.vectors, 2, 4, True)
    np.testing.assert_array_equal(again.views, views)
    assert pickle.loads(pickle.dumps(scan)) == scan
    assert scan[1:] == scan[[1, 2]] and scan[1].shape == (1, 2, 4)
    lamino = tomos.laminography(views=4, rows=3, columns=3, tilt=30, degrees=True)
    np.testing.assert_allclose(lamino.views[0, 2], -0.5)


def test_save_and_load(tmp_path):
    scan = tomos.helix(views=6, rows=2, columns=3, source_axis=10, source_detector=15, pitch=3)
    for name in ("a.json", "a.txt"):
        scan.save(tmp_path / name)
        assert tomos.Geometry.load(tmp_path / name) == scan
    with pytest.raises(tomos.FileFailure, match="a.json"):
        scan.save(tmp_path / "a.json")
    scan.save(tmp_path / "a.json", overwrite=True)


def test_files(tmp_path, rng):
    data = rng.random((4, 5, 6), np.float32)
    scan = tomos.parallel(views=4, rows=5, columns=6)
    tomos.write(tmp_path / "a.h5", data, geometry=scan)
    what = tomos.info(tmp_path / "a.h5")
    assert (what.format, what.content, what.shape) == ("hdf5", "projections", (4, 5, 6))
    assert what.geometry == scan and what.grid is None
    np.testing.assert_array_equal(tomos.read(tmp_path / "a.h5"), data)
    np.testing.assert_array_equal(tomos.read(tmp_path / "a.h5", 1, 2), data[1:3])
    tomos.write(tmp_path / "v.h5", data[:, ::-1], grid=tomos.Grid((4, 5, 6), 0.5))
    assert tomos.info(tmp_path / "v.h5").grid == tomos.Grid((4, 5, 6), 0.5)
    np.testing.assert_array_equal(tomos.read(tmp_path / "v.h5"), data[:, ::-1])
    np.save(tmp_path / "b.npy", data.astype(np.float64))
    np.testing.assert_array_equal(tomos.read(tmp_path / "b.npy"), data)


@pytest.mark.parametrize("call, failure, message", [
    (lambda p: tomos.read(p / "none.h5"), OSError, "none.h5"),
    (lambda p: tomos.read(p / "a.npy", 3, 9), ValueError, "3"),
    (lambda p: tomos.write(p / "a.npy", np.zeros((1, 2, 3))), OSError, "a.npy"),
    (lambda p: tomos.write(p / "a.xyz", np.zeros((1, 2, 3))), tomos.Error, "a.xyz"),
    (lambda p: tomos.write(p / "a.h5", np.zeros((1, 2, 3)), content="soup"), ValueError,
     "content 'soup'"),
    (lambda p: tomos.write(p / "a.h5", np.zeros((1, 1, 2, 3))), ValueError, "data has 4 axes"),
    (lambda p: tomos.read(p / "bad.h5"), tomos.Error, "bad.h5"),
])
def test_rejected_files(tmp_path, call, failure, message):
    tomos.write(tmp_path / "a.npy", np.zeros((4, 2, 3)))
    (tmp_path / "bad.h5").write_bytes(b"\x89HDF\r\n\x1a\nnothing")
    with pytest.raises(failure, match=message):
        call(tmp_path)


def test_phantoms():
    ball = tomos.Phantom("ball", radius=2, value=3)
    assert ball.ellipsoids == [tomos.Ellipsoid((0, 0, 0), (2, 2, 2), (0, 0, 0), 3)]
    assert abs(ball.project(tomos.parallel([0.3], columns=1))[0, 0, 0] - 12) < 1e-5
    again = tomos.Phantom(ball.ellipsoids)
    grid = tomos.Grid((9, 9, 9), 0.5)
    np.testing.assert_array_equal(again.volume(grid), ball.volume(grid))
    assert tomos.phantom("shepp-logan", (8, 16, 16)).shape == (8, 16, 16)
    with pytest.raises(ValueError, match="did you mean 'ball'"):
        tomos.Phantom("bal")


def test_measures(rng):
    a = tomos.phantom("shepp-logan-2d-modified", 32)
    b = tomos.add_noise(a, 0.1, seed=4)
    assert abs(tomos.compare(a, b).relative_l2 - 0.1) < 1e-5 and a.dtype == np.float32
    assert not np.array_equal(tomos.add_noise(a, 0.1, seed=5), b)
    large = tomos.phantom("shepp-logan-2d-modified", 512).astype(float)  # converted for the call
    assert abs(tomos.compare(large, 1.5 * large).relative_l2 - 0.5) < 1e-6
    with pytest.raises(ValueError, match="32"):
        tomos.compare(a, a[:16])


def test_scans_in_files(tmp_path, rng):
    data = rng.random((6, 4, 8), np.float32)
    scan = tomos.parallel(views=6, rows=4, columns=8, pixel=0.5)
    tomos.write(tmp_path / "scan.h5", data, geometry=scan)
    found = tomos.Scan(tmp_path / "scan.h5")
    assert found.shape == (6, 4, 8) and not found.counts and found.flats().shape == (0, 4, 8)
    np.testing.assert_array_equal(found.views(), data)
    np.testing.assert_array_equal(found.views(rows=slice(1, 3)), data[:, 1:3])
    assert found.geometry() == scan and "6 x 4 x 8 float32, 0 flats" in repr(found)
    np.save(tmp_path / "plain.npy", data)
    plain = tomos.Scan(tmp_path / "plain.npy")
    assert plain.kind == "array" and plain.angles is None
    assert np.allclose(plain.geometry(arc=180, axis=3, degrees=True).views,
                       tomos.parallel(views=6, rows=4, columns=8, axis=3).views)
    with pytest.raises(OSError, match="none.h5"):
        tomos.Scan(tmp_path / "none.h5")
    with pytest.raises(ValueError, match="step 1, not 2"):
        found.views(rows=slice(0, 4, 2))
    with pytest.raises(TypeError, match="did you mean 'axis'"):
        plain.geometry(axi=3)
