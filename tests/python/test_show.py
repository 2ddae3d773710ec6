"""Tables and pictures for notebooks."""
import sys
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
import tomos

GRID = tomos.Grid((6, 8, 10), voxel=(0.5, 0.25, 2), centre=(7, -3, 11))
CONE = {"views": 12, "rows": 6, "columns": 10, "source_axis": 30, "source_detector": 50}
SCANS = {"parallel": {"views": 12, "rows": 4, "columns": 9},
         "fan": {k: v for k, v in CONE.items() if k != "rows"}, "cone": CONE,
         "helix": dict(CONE, pitch=8, arc=720, degrees=True),
         "laminography": {"views": 12, "rows": 8, "columns": 9, "tilt": 30, "degrees": True},
         "lebedev": {"views": 13, "rows": 8, "columns": 9}}


class Cells(HTMLParser):
    """The texts of a table, and whether every tag that is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    yield pyplot
    pyplot.close("all")


def value_at(ax, x, y):
    """The value that a picture shows at a place, from what is drawn and where."""
    image = ax.images[0]
    left, right, bottom, top = image.get_extent()
    data = np.asarray(image.get_array())
    row = int((y - top) / (bottom - top) * data.shape[0])
    column = int((x - left) / (right - left) * data.shape[1])
    return data[row, column]


def places(grid):
    z, y, x = (f + s * np.arange(n) for f, s, n in
               zip(grid.first[::-1], grid.step[::-1], grid.shape))
    return np.meshgrid(z, y, x, indexing="ij")


def test_volume_with_lengths(pyplot, tmp_path):
    """Every picture shows at a place the value of that place; all lengths grow right and up."""
    z, y, x = places(GRID)
    volume = (x + 10 * y + 100 * z).astype(np.float32)
    tomos.write(tmp_path / "v.nii.gz", volume, grid=GRID, value_unit="HU")
    for data, grid in ((volume, GRID), (tmp_path / "v.nii.gz", None)):
        axes = tomos.show(data, grid, at=(1, 2, 3))
        k, j, i = GRID.first[2] + 2, GRID.first[1] - 0.5, GRID.first[0] + 1.5
        assert [ax.get_title() for ax in axes] == [f"z = {k:.4g}", f"y = {j:.4g}", f"x = {i:.4g}"]
        assert [ax.get_ylabel() for ax in axes] == ["y (mm)", "z (mm)", "z (mm)"]
        near = {"x": GRID.first[0] + 0.51, "y": GRID.first[1] - 0.76, "z": GRID.first[2] + 4.1}
        exact = {"x": GRID.first[0] + 0.5, "y": GRID.first[1] - 0.75, "z": GRID.first[2] + 4}
        for ax, fixed in zip(axes, ({"z": k}, {"y": j}, {"x": i})):
            across, up = ax.get_xlabel()[0], ax.get_ylabel()[0]
            at = dict(exact, **fixed)
            expected = at["x"] + 10 * at["y"] + 100 * at["z"]
            assert value_at(ax, near[across], near[up]) == pytest.approx(expected, rel=1e-5)
            assert ax.get_xlim()[0] < ax.get_xlim()[1] and ax.get_ylim()[0] < ax.get_ylim()[1]
        bar = axes[0].figure.axes[-1]
        assert bar.get_ylabel() == ("HU" if grid is None else "")
        axes[0].figure.savefig(tmp_path / "show.png")
    tomos.write(tmp_path / "p.nrrd", volume, grid=GRID, unit="pixel", value_unit="1/pixel")
    unsized = tomos.show(tmp_path / "p.nrrd")
    assert unsized[0].get_ylabel() == "y (pixel)"
    assert unsized[0].figure.axes[-1].get_ylabel() == "1/pixel"


def test_indices(pyplot):
    """Without a grid: row 0 of a slice at the top, z upwards; one slice is one picture."""
    axes = tomos.show(np.arange(24.0).reshape(2, 3, 4), window=(0, 10))
    assert axes[0].get_ylim()[0] > axes[0].get_ylim()[1]
    assert axes[1].get_ylim()[0] < axes[1].get_ylim()[1]
    assert axes[0].images[0].get_clim() == (0, 10) and axes[0].get_xlabel() == "x"
    assert axes[0].figure.axes[-1].get_ylabel() == ""  # values per what?
    assert len(tomos.show(np.eye(5))) == 1
    assert len(tomos.show(np.zeros((7, 1, 5)), content="projections")) == 1


def test_projections(pyplot, tmp_path):
    scan = tomos.cone(**CONE)
    data = np.random.default_rng(1).random(scan.shape).astype(np.float32)
    tomos.write(tmp_path / "p.h5", data, geometry=scan)
    axes = tomos.show(tmp_path / "p.h5", at=(2, 3, 4))
    assert [ax.get_title() for ax in axes] == ["projection, view 2", "sinogram, row 3",
                                               "views, column 4"]
    assert value_at(axes[0], 7, 5) == data[2, 5, 7]
    assert value_at(axes[1], 7, 9) == data[9, 3, 7]
    assert value_at(axes[2], 5, 9) == data[9, 5, 4]
    assert axes[0].get_ylim()[0] < axes[0].get_ylim()[1]  # row 0 below
    assert axes[1].get_ylim()[0] > axes[1].get_ylim()[1]  # view 0 above


def test_nan_only(pyplot):
    tomos.show(np.full((2, 3, 4), np.nan))
    tomos.show(np.ones((2, 3, 4)))


def test_mistakes(pyplot):
    with pytest.raises(IndexError, match="at: y is 9; there are 3"):
        tomos.show(np.zeros((2, 3, 4)), at=(0, 9, 0))
    with pytest.raises(ValueError, match="the grid has the shape"):
        tomos.show(np.zeros((2, 3, 4)), GRID)
    with pytest.raises(ValueError, match="window is 2, 1"):
        tomos.show(np.zeros((2, 3, 4)), window=(2, 1))
    with pytest.raises(ValueError, match="content 'scan' is not known"):
        tomos.show(np.zeros((2, 3, 4)), content="scan")
    with pytest.raises(ValueError, match="three axes"):
        tomos.show(np.zeros((2, 3, 4, 5)))
    with pytest.raises(ValueError, match="projection='3d'"):
        GRID.plot(pyplot.subplots()[1])


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    for draw in (lambda: tomos.show(np.eye(3)), GRID.plot, tomos.History().plot):
        with pytest.raises(ImportError, match="needs matplotlib, which is not installed: "):
            draw()
    with pytest.raises(ImportError, match="needs ipywidgets, which is not installed: "):
        tomos.browse(np.eye(3))


@pytest.mark.parametrize("kind", SCANS)
def test_scan_drawings(pyplot, tmp_path, kind):
    """The path of the source goes through the sources of all views; the detector is at its place."""
    scan = getattr(tomos, kind)(**SCANS[kind])
    ax = scan.plot(views=5)
    lines = {line.get_label(): np.array(line.get_data_3d()).T for line in ax.lines}
    if scan.point_source:
        np.testing.assert_allclose(lines["source"], scan.views[:, :3])
        first = lines["detector"]
        np.testing.assert_allclose(first[:4].mean(0), scan.views[0, 4:7], atol=1e-9)
        side = np.linalg.norm(first[1] - first[0])
        assert side == pytest.approx(scan.shape[2] * np.linalg.norm(scan.views[0, 7:10]))
    else:  # from the side that rays come from to the detector is along the ray
        way = lines["detector"][:4].mean(0) - lines["side that rays come from"][0]
        assert np.dot(way, scan.views[0, :3]) == pytest.approx(
            np.linalg.norm(way) * np.linalg.norm(scan.views[0, :3]))
    if kind == "cone":
        ax.figure.savefig(tmp_path / "scan.png")


def test_other_drawings(pyplot, tmp_path):
    A = tomos.Projector(tomos.Grid(16), tomos.parallel(views=12, columns=16))
    x = tomos.phantom("shepp-logan-2d-modified", A.grid)
    history = tomos.History()
    tomos.sirt(A, A @ x, iterations=6, history=history, truth=x)
    curves = history.plot().lines
    np.testing.assert_array_equal(curves[0].get_ydata(), history.residual)
    np.testing.assert_array_equal(curves[1].get_ydata(), history.error)
    assert A.plot().get_title() and GRID.plot().get_zlabel() == "z (mm)"
    tomos.write(tmp_path / "scan.h5", A @ x, geometry=A.geometry)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the object is wider than the detector
        report = tomos.run(tmp_path / "scan.h5", tmp_path / "v.npy")
    busy = [bar.get_width() for bar in report.plot().patches]
    assert busy == [s for s, _ in report.stages.values() if s > 0]
    axes = tomos.Scan(tmp_path / "scan.h5").plot(view=3)
    np.testing.assert_allclose(np.asarray(axes[0].images[0].get_array()), (A @ x)[3],
                               rtol=1e-6)
    axes = tomos.Scan(tmp_path / "scan.h5").plot(view=-1, row=-1)  # from the end
    assert [ax.get_title() for ax in axes] == ["projection, view 11", "sinogram, row 0"]
    np.testing.assert_allclose(np.asarray(axes[1].images[0].get_array()), (A @ x)[:, 0], rtol=1e-6)


def test_tables(tmp_path):
    A = tomos.Projector(tomos.Grid(8), tomos.parallel(views=4, columns=8))
    history = tomos.History()
    tomos.cgls(A, A @ np.ones((8, 8)), iterations=2, history=history)
    tomos.write(tmp_path / "s&s.h5", A @ np.ones((1, 8, 8)), geometry=A.geometry)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the object is wider than the detector
        report = tomos.run(tmp_path / "s&s.h5", tmp_path / "v.npy")
    scan = tomos.Scan(tmp_path / "s&s.h5")
    for thing, expected in ((GRID, "6 x 8 x 10"), (GRID, "0.5 x 0.25 x 2"), (A.geometry, "4 over 180 degrees"),
                            (tomos.cone(**CONE), "50"), (A, "32 x 64"), (A.T, "64 x 32"),
                            (2 * A, "1 x 8 x 8"), (history, "2"), (tomos.History(), "not yet run"),
                            (tomos.compare(np.eye(3), np.eye(3)), "relative_l2"),
                            (tomos.PrepReport(), "zingers"), (tomos.Axis(3.25), "3.250"),
                            (tomos.info(tmp_path / "s&s.h5"), "projections"),
                            (report, "1 x 8 x 8"), (scan, "4 x 1 x 8")):
        assert expected in Cells(thing._repr_html_()).texts, thing
    assert "s&amp;s.h5" in scan._repr_html_()


def test_browser(pyplot):
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed")
    volume = np.arange(60.0).reshape(3, 4, 5)
    box = tomos.browse(volume)
    across, sliders, _ = box.children
    index = sliders.children[0]
    assert (index.value, index.max) == (1, 2)
    across.value = 2
    assert (index.value, index.max) == (2, 4)
