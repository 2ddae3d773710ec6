"""Cupping, Hounsfield units, metal and truncation, from file to file."""
import numpy as np
import pytest
import tomos

N = 96
ENERGIES = np.arange(25, 121, 5.0)
WEIGHTS = (120 / ENERGIES - 0.999) * ENERGIES * np.exp(-2 * (0.042 + 0.033 * (60 / ENERGIES)**3))
WEIGHTS /= WEIGHTS.sum()
WATER = 0.018 + 0.0026 * (60 / ENERGIES)**3
STEEL = 0.13 + 0.85 * (60 / ENERGIES)**3


def cone(rows=6, **options):
    return tomos.cone(views=144, columns=N, rows=rows, pixel=3.75, source_axis=500,
                      source_detector=750, **options)


def paths(scan, *bodies):
    solids = [tomos.Ellipsoid((x, y, 0), (a, b, np.inf), value=1.0) for x, y, a, b in bodies]
    return tomos.Phantom(solids).project(scan).astype(float)


def measured(water, steel=0.0):
    """Transmission of a polychromatic beam."""
    return sum(w * np.exp(-water * a - steel * b) for w, a, b in zip(WEIGHTS, WATER, STEEL))


def places(x=0, y=0, a=1, b=1):
    c = (np.arange(N) - (N - 1) / 2) * 2.5
    return np.hypot((c[None, :] - x) / a, (-c[:, None] - y) / b)


def run(tmp_path, name, p, scan, **options):
    path = tmp_path / "scan.h5"
    tomos.write(path, p.astype(np.float32), geometry=scan, overwrite=True)
    report = tomos.run(path, tmp_path / name, backend="cpu", filter="hann", **options)
    return tomos.read(report.output), report


def test_hardening_auto_and_hounsfield(tmp_path):
    scan = cone()
    body = (6, 4, 95, 75)
    p = -np.log(measured(paths(scan, body)))
    r = places(*body)

    def cupping(v):
        rim = v[(r > 0.8) & (r < 0.9)].mean()
        return (rim - v[r < 0.25].mean()) / rim

    plain, _ = run(tmp_path, "plain.h5", p, scan)
    flat, report = run(tmp_path, "flat.h5", p, scan, hardening="auto")
    assert cupping(plain[3]) > 0.03 and abs(cupping(flat[3])) < 0.015
    line = next(line for line in report.lines if line.startswith("hardening"))
    assert "deviation inside the object" in line
    water = float(flat[3][r < 0.8].mean())
    hu, _ = run(tmp_path, "hu.h5", p, scan, hardening="auto", hu=water)
    assert abs(hu[3][r < 0.9].mean()) < 5
    assert abs(hu[3][(r > 1.1) & (r < 1.2)].mean() + 1000) < 10
    np.testing.assert_allclose(hu, tomos.hounsfield(flat, water), atol=0.01)


def test_hounsfield_in_integers(tmp_path):
    scan = tomos.parallel(views=60, columns=32, rows=3)
    p = tomos.Phantom("ball", radius=10, value=0.02).project(scan)
    v, _ = run(tmp_path, "v.h5", p, scan, hu=(0.02, 0.0), type="uint16", window=(-1100, 400))
    assert abs(v[1, 16, 16]) < 40 and abs(v[1, 16, 3] + 1000) < 60
    with pytest.raises(tomos.BadValue, match="water must be larger than that of air"):
        run(tmp_path, "w.h5", p, scan, hu=(0.01, 0.02))
    with pytest.raises(tomos.BadValue, match="hu has 3 values"):
        run(tmp_path, "w.h5", p, scan, hu=(1, 2, 3))


def test_metal_in_slabs(tmp_path):
    """Cone beam and stacks; the result does not depend on the slabs."""
    rods = [(-35, 5, 6, 6), (30, -10, 6, 6)]
    near = np.minimum(places(*rods[0][:2]), places(*rods[1][:2]))
    around = (near > 12) & (near < 35) & (places(0, 0, 90, 70) < 0.95)
    for scan in (cone(rows=8), tomos.parallel(views=144, columns=N, rows=8, pixel=2.5)):
        steel, body = paths(scan, *rods), paths(scan, (0, 0, 90, 70))
        p, clean = -np.log(measured(body - steel, steel)), -np.log(measured(body))
        truth, _ = run(tmp_path, "truth.h5", clean, scan, overwrite=True)
        plain, _ = run(tmp_path, "plain.h5", p, scan, overwrite=True)
        less, _ = run(tmp_path, "less.h5", p, scan, metal="nmar", overwrite=True)
        few, _ = run(tmp_path, "few.h5", p, scan, metal="nmar", rows="2:6", overwrite=True)

        def error(v):
            return np.sqrt(((v - truth)[4][around]**2).mean())
        assert error(less) < error(plain) / 3
        np.testing.assert_allclose(few, less[2:6], atol=1e-5 * less.max())
        whole = tomos.fdk if scan.point_source else tomos.fbp
        A = tomos.Projector(None, scan, backend="cpu")
        np.testing.assert_allclose(whole(A, p.astype(np.float32), filter="hann", metal="nmar"), less,
                                   atol=1e-4 * less.max())


def test_scatter_auto(tmp_path):
    scan = tomos.parallel(views=120, columns=N, rows=2, pixel=2.5)
    t = 0.99 * np.exp(-0.0206 * paths(scan, (5, 0, 95, 80))) + 0.01
    path = tmp_path / "scan.h5"
    tomos.write(path, t.astype(np.float32), geometry=scan)
    report = tomos.run(path, tmp_path / "v.h5", quantity="transmission", scatter="auto",
                       backend="cpu")
    v = tomos.read(report.output)[1]
    assert abs(v[places(5, 0, 95, 80) < 0.3].mean() / 0.0206 - 1) < 0.01
    assert any(line.startswith("scatter   0.01") or line.startswith("scatter   0.00")
               for line in report.lines)
    with pytest.raises(tomos.BadValue, match="found from a whole scan"):
        tomos.correct_hardening(t, hardening="auto")


def test_truncated_scan_warns(tmp_path):
    scan = tomos.parallel(views=120, columns=64)
    wide = tomos.Phantom([tomos.Ellipsoid((0, 0, 0), (48, 48, np.inf), value=0.01)])
    p = wide.project(scan)
    with pytest.warns(UserWarning, match="wider than the detector"):
        run(tmp_path, "zero.h5", p, scan)
    v, _ = run(tmp_path, "ellipse.h5", p, scan, padding="ellipse")
    assert abs(v[0, 8:56, 8:56].mean() / 0.01 - 1) < 0.02
    half = tomos.parallel(views=240, columns=64, axis=4, arc=360, degrees=True)
    inside = tomos.Phantom([tomos.Ellipsoid((0, 0, 0), (40, 40, np.inf), value=0.01)])
    _, report = run(tmp_path, "half.h5", inside.project(half), half)
    assert not any("wider" in line for line in report.lines)


@pytest.mark.parametrize("method", ["vo", "wavelet", "titarenko"])
def test_rings_of_a_cone_beam(method):
    """Stripes stay with their row of the detector, whatever the rays."""
    columns, rows = 192, 5
    scan = tomos.cone(views=300, columns=columns, rows=rows, pixel=1.875, source_axis=500,
                      source_detector=750)
    p = tomos.Phantom([tomos.Ellipsoid((16, 10, 0), (80, 50, np.inf), value=0.02),
                       tomos.Ellipsoid((-30, 10, 0), (10, 15, np.inf), value=0.01)]).project(scan)
    rng, stripes = np.random.default_rng(1), np.zeros((rows, columns))
    for row in stripes:
        row[rng.choice(np.arange(40, 150), 6, replace=False)] = 0.3 * rng.choice([-1, 1], 6)
    A = tomos.Projector(None, scan, backend="cpu")
    c = (np.arange(columns) - (columns - 1) / 2) * 1.25
    inside = np.hypot((c[None, :] - 16) / 80, (-c[:, None] - 10) / 50) < 0.85

    def volume(data):
        return tomos.fdk(A, data.astype(np.float32), filter="hann")[2][inside]
    truth, rings = volume(p), volume(p + stripes)
    fixed = volume(tomos.remove_rings(p + stripes, rings=method))
    assert np.linalg.norm(fixed - truth) < 0.5 * np.linalg.norm(rings - truth)
