"""Preparation, step by step and all at once."""
import numpy as np
import pytest
import tomos

SCAN = tomos.parallel(views=60, rows=3, columns=48)
DISC = tomos.Phantom([tomos.Ellipsoid((4, 3, 0), (12, 9, np.inf), value=0.03)])


def counts(rng):
    flats = 1000 + 200 * rng.random((4, 3, 48))
    flats[:] = flats[:1]
    darks = np.full((2, 3, 48), 20.0)
    clean = DISC.project(SCAN)
    return darks[0] + (flats[0] - darks[0]) * np.exp(-clean), flats, darks, clean


def test_counts_to_integrals(rng):
    raw, flats, darks, clean = counts(rng)
    kept = raw.copy()
    t = tomos.normalize(raw, flats, darks)
    np.testing.assert_allclose(t, np.exp(-clean), rtol=1e-4)
    np.testing.assert_allclose(tomos.minus_log(t), clean, atol=2e-4)
    np.testing.assert_array_equal(raw, kept)
    np.testing.assert_allclose(tomos.prepare(raw, flats, darks), clean, atol=2e-4)
    same = raw.astype(np.float32)
    assert tomos.normalize(same, flats, darks, out=same) is same
    np.testing.assert_array_equal(same, t)


def test_drift_between_flats():
    flats = np.stack([np.full((1, 4), 100.0), np.full((1, 4), 200.0)])
    t = tomos.normalize(np.full((11, 1, 4), 100.0), flats, flat_views=[0, 10])
    np.testing.assert_allclose(t[:, 0, 0], 100 / (100 + 10 * np.arange(11)), rtol=0.02)
    with pytest.raises(ValueError, match=r"flat_views has shape \(3,\) for 2 flats"):
        tomos.normalize(np.ones((11, 1, 4)), flats, flat_views=[0, 5, 10])


def test_rings_zingers_and_report(rng):
    clean = DISC.project(SCAN)
    striped = clean + 0.05 * (np.arange(48) == 30)
    assert np.abs(tomos.remove_rings(striped) - clean)[:, :, 30].mean() < 0.03
    t = np.exp(-clean)
    t[7, 1, 20] = 9
    report = tomos.PrepReport()
    cleaned = tomos.remove_zingers(t, report=report)
    assert report.zingers >= 1 and cleaned.max() <= 1.001
    sinogram = tomos.remove_rings(striped[:, 0])
    assert sinogram.shape == (60, 48)


def test_geometry_follows():
    data, scan = tomos.prepare(DISC.project(SCAN), geometry=SCAN, bin=3, bad_views=[0, 1],
                               leave_out=True)
    assert data.shape == scan.shape == (58, 1, 16)
    assert np.allclose(scan.views[0, 7:10], 3 * SCAN.views[2, 7:10])


@pytest.mark.parametrize("call, failure, message", [
    (lambda: tomos.minus_log(np.zeros(4)), ValueError, "the data have 1 axes"),
    (lambda: tomos.remove_rings(np.zeros((4, 2, 8)), rings="von"), ValueError, "did you mean 'vo'"),
    (lambda: tomos.remove_rings(np.zeros((4, 2, 8)), snr=3), TypeError,
     "did you mean 'rings'|no option 'snr'"),
    (lambda: tomos.minus_log(np.zeros((4, 2, 8)), out=np.zeros((4, 2, 8))), TypeError, "float32"),
    (lambda: tomos.minus_log(np.zeros((4, 2, 8)), out=np.zeros((4, 2, 7), "f4")), ValueError,
     "out has shape"),
    (lambda: tomos.normalize(np.ones((4, 2, 8)), np.ones((1, 2, 7))), ValueError, "flat"),
    (lambda: tomos.retrieve_phase(np.ones((1, 4, 4)), pixel="1 parsec"), ValueError, "parsec"),
    (lambda: tomos.prepare(np.ones((4, 2, 8)), bin=9), ValueError, "9"),
    (lambda: tomos.interpolate_views(np.ones((4, 2, 8)), bad_views=[7]), ValueError, "7"),
])
def test_rejected(call, failure, message):
    with pytest.raises(failure, match=message):
        call()
