"""The scripts of the gallery, small: they run, and show what the page says of them."""
import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
GALLERY = Path(__file__).resolve().parents[2] / "doc" / "gallery"


def run(name, folder, **options):
    sys.path.insert(0, str(GALLERY))
    try:
        result = importlib.import_module(name).main(folder, **options)
    finally:
        sys.path.remove(str(GALLERY))
    assert (folder / f"{name}.png").stat().st_size > 5000
    return result


def test_few_views(tmp_path):
    fbp, sirt = run("few_views", tmp_path, size=64)
    assert sirt < 0.8 * fbp


def test_semiconvergence(tmp_path):
    best, errors = run("semiconvergence", tmp_path, size=64)
    least = errors[best - 1]
    assert 2 < best < 30 and errors[-1] > 1.2 * least and errors[0] > 1.2 * least


def test_limited_angle(tmp_path):
    fbp, sirt, tv = run("limited_angle", tmp_path, size=64, iterations=300)
    assert tv < 0.85 * sirt < sirt < fbp


def test_offset_detector(tmp_path):
    wide, offset, middle = run("offset_detector", tmp_path, size=64)
    assert offset < 1.3 * wide and middle > 2 * wide


def test_by_fourier(tmp_path):
    ramp, hann = run("by_fourier", tmp_path, size=64)
    assert 0.2 > ramp > 2 * hann > 0.01


def test_axis_search(tmp_path):
    found, true = run("axis_search", tmp_path, size=64)
    assert abs(found - true) < 0.2


def test_scans(tmp_path):
    assert [len(scan) for scan in run("scans", tmp_path, views=8)] == [24, 8]


def test_every_script_has_its_picture_on_the_page():
    page = (GALLERY.parent / "gallery.md").read_text()
    scripts = sorted(p.stem for p in GALLERY.glob("*.py") if p.stem != "pictures")
    assert len(scripts) == 7
    for name in scripts:
        assert f"gallery/{name}.py" in page and f"gallery/{name}.png" in page
        assert 1000 < (GALLERY / f"{name}.png").stat().st_size < 100_000
