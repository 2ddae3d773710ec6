"""tomos.run on scans of every kind, against the same steps on arrays."""
import numpy as np
import pytest
import tomos

N, VIEWS, ROWS = 24, 20, 6
POINT = {"source_axis": 90, "source_detector": 120}
GEOMETRIES = {
    "slice": lambda: tomos.parallel(views=VIEWS, columns=N),
    "stack": lambda: tomos.parallel(views=VIEWS, rows=ROWS, columns=N),
    "full turn": lambda: tomos.parallel(views=VIEWS, rows=ROWS, columns=N, arc=2 * np.pi),
    "offset axis": lambda: tomos.parallel(views=VIEWS, rows=ROWS, columns=N, axis=9.3),
    "unequal angles": lambda: tomos.parallel(np.linspace(0, 1.75, VIEWS) ** 2, rows=ROWS,
                                             columns=N),
    "flat pixels": lambda: tomos.parallel(views=VIEWS, rows=ROWS, columns=N, pixel=0.5,
                                          pixel_height=0.25),
    "fan": lambda: tomos.fan(views=VIEWS, columns=N, **POINT),
    "fans": lambda: tomos.fan(views=VIEWS, rows=ROWS, columns=N, **POINT),
    "short fan": lambda: tomos.fan(views=VIEWS, columns=N, arc=4.0, **POINT),
    "cone": lambda: tomos.cone(views=VIEWS, rows=ROWS, columns=N, **POINT),
    "cone, offset": lambda: tomos.cone(views=VIEWS, rows=ROWS, columns=N, axis=12.7, axis_row=1,
                                       **POINT),
    "roll": lambda: tomos.cone(views=VIEWS, rows=ROWS, columns=N, roll=0.05, **POINT),
    "laminography": lambda: tomos.laminography(views=VIEWS, rows=ROWS, columns=N, tilt=0.5),
    "helix": lambda: tomos.helix(views=VIEWS, rows=ROWS, columns=N, pitch=3, arc=9, **POINT),
    "lebedev": lambda: tomos.lebedev(views=13, rows=ROWS, columns=N),
    "vectors": lambda: tomos.vectors(GEOMETRIES["cone"]().vectors[::-1], ROWS, N, True),
}
ANALYTIC = ("slice", "stack", "full turn", "offset axis", "unequal angles", "flat pixels", "fan",
            "fans", "short fan", "cone", "cone, offset", "roll")
#: Whatever couples slices does so in groups of 16, and there are fewer slices here.
ITERATIVE = {"sirt": {}, "cgls": {}, "sart": {"order": "golden"}, "osem": {"blocks": 4},
             "fista": {"regulariser": "tikhonov", "strength": 0.1, "norm": 30.0},
             "lsmr": {}, "block": {"blocks": 5, "weights": "drop"}}


@pytest.fixture
def scan(request, tmp_path):
    """A file with the projections of a geometry, and both."""
    geometry = GEOMETRIES[request.param]()
    b = tomos.Phantom("random", radius=9, count=7, value=0.02).project(geometry)
    tomos.write(tmp_path / "scan.h5", b, geometry=geometry)
    return tmp_path / "scan.h5", geometry, b


def near(volume, wanted, most=2e-6):
    assert volume.shape == wanted.shape
    assert np.abs(volume - wanted).max() <= most * np.abs(wanted).max()


@pytest.mark.filterwarnings("ignore:the views cover")
@pytest.mark.parametrize("scan", ANALYTIC, indirect=True)
@pytest.mark.parametrize("options", [{}, {"filter": "hann", "cutoff": 0.8},
                                     {"interpolation": "nearest", "padding": "edge"}])
def test_filtered_back_projection(scan, tmp_path, options):
    path, geometry, b = scan
    report = tomos.run(path, tmp_path / "rec.npy", **options)
    near(np.load(report.output), tomos.fbp(tomos.Projector(None, geometry), b, **options))


@pytest.mark.parametrize("scan", GEOMETRIES, indirect=True)
@pytest.mark.parametrize("method", ITERATIVE)
def test_iterative_methods(scan, tmp_path, method):
    path, geometry, b = scan
    options = {"iterations": 2, **ITERATIVE[method]}
    report = tomos.run(path, tmp_path / "rec.npy", method, **options)
    wanted = getattr(tomos, method)(tomos.Projector(None, geometry), b, **options)
    near(np.load(report.output), wanted, 1e-5)


@pytest.mark.parametrize("model", [name for name in tomos.models() if name != "fourier"])
@pytest.mark.parametrize("scan", ["stack", "cone"], indirect=True)
def test_projectors(scan, tmp_path, model):
    path, geometry, b = scan
    grid = {"size": [20, 18, 4], "voxel": [1.1, 1.2, 0.9], "centre": [1, 2, 0.5]}
    report = tomos.run(path, tmp_path / "rec.npy", "sirt", iterations=2, forward=model, **grid)
    A = tomos.Projector(tomos.Grid((4, 18, 20), (1.1, 1.2, 0.9), (1, 2, 0.5)), geometry, model)
    near(np.load(report.output), tomos.sirt(A, b, iterations=2))


@pytest.mark.parametrize("scan", ["stack"], indirect=True)
def test_fourier(scan, tmp_path):
    path, geometry, b = scan
    options = {"iterations": 4, "forward": "fourier", "accuracy": 1e-4}
    report = tomos.run(path, tmp_path / "rec.npy", "cgls", **options)
    A = tomos.Projector(None, geometry, "fourier", accuracy=1e-4)
    near(np.load(report.output), tomos.cgls(A, b, iterations=4), 1e-5)
    report = tomos.run(path, tmp_path / "fbp.npy", by="fourier")
    near(np.load(report.output), tomos.fbp(A, b, by="fourier"), 1e-6)


@pytest.mark.parametrize("method, options", [("fbp", {}), ("sirt", {"iterations": 3})])
@pytest.mark.parametrize("prep", [
    {}, {"rings": "vo"}, {"zingers": "space", "zinger_level": 0.05}, {"bin": 2},
    {"bad_views": [3, 7]}, {"bad_views": [3], "leave_out": True}, {"hardening": [1, 0.2]},
    {"shift_x": [0.5] * VIEWS}, {"quantity": "counts", "flat_average": "median"},
    {"phase": "paganin", "distance": "20mm", "energy": "20keV", "delta_beta": 100.0}])
def test_counts(tmp_path, rng, prep, method, options):
    """A measured scan as three plain arrays: views, flats and darks."""
    geometry = tomos.parallel(views=VIEWS, rows=ROWS, columns=N, pixel="2um")
    b = tomos.Phantom("random", radius=0.018, count=7, value=20).project(geometry)
    counts = (50 + 1000 * np.exp(-b) + 5 * rng.random(b.shape)).astype(np.float32)
    flats, darks = np.full((3, ROWS, N), 1050.0), np.full((2, ROWS, N), 50.0)
    for name, data in (("views", counts), ("flats", flats), ("darks", darks)):
        tomos.write(tmp_path / f"{name}.npy", data, content="projections")
    report = tomos.run(tmp_path / "views.npy", tmp_path / "rec.npy", method, geometry=geometry,
                       flats=str(tmp_path / "flats.npy"), darks=tmp_path / "darks.npy", **prep,
                       **({"pixel": "2um"} if "phase" in prep else {}), **options)
    data, scan = tomos.prepare(counts, flats, darks, geometry=geometry,
                               **({"pixel": "2um"} if "phase" in prep else {}), **prep)
    wanted = getattr(tomos, method)(tomos.Projector(None, scan), data, **options)
    near(np.load(report.output), wanted, 1e-5)


@pytest.mark.parametrize("output", ["rec.h5", "rec.npy", "rec.tiff", "rec.mha", "rec/"])
@pytest.mark.parametrize("method", ["fbp", "sirt"])
@pytest.mark.parametrize("scan", ["stack"], indirect=True)
def test_formats_and_types(scan, tmp_path, output, method):
    low, high = -0.02, 0.12
    exact = tomos.read(tomos.run(scan[0], f"{tmp_path}/float32_{output}", method).output)
    for kind, steps in (("uint16", 65535), ("uint8", 255)):
        report = tomos.run(scan[0], f"{tmp_path}/{kind}_{output}", method, type=kind,
                           window=[low, high])
        stored = tomos.read(report.output)
        if stored.max() > 1:  # formats without a scale give the numbers as they are stored
            stored = low + (high - low) / steps * stored
        assert report.shape == stored.shape
        assert np.abs(stored - np.clip(exact, low, high)).max() < 0.51 * (high - low) / steps + 1e-7


def test_counts_without_an_object(tmp_path):
    """`i0` is a number, or the text that the command takes."""
    geometry = GEOMETRIES["stack"]()
    b = tomos.Phantom("random", radius=9, count=7, value=0.02).project(geometry)
    np.save(tmp_path / "counts.npy", 5000 * np.exp(-b))
    volumes = []
    for i0 in (5000, 5000.0, np.float32(5000), "5000"):
        tomos.run(tmp_path / "counts.npy", tmp_path / "rec.npy", i0=i0, arc=180, degrees=True,
                  axis=(N - 1) / 2, overwrite=True)
        volumes.append(np.load(tmp_path / "rec.npy"))
    assert all(np.array_equal(volumes[0], other) for other in volumes[1:])
    near(volumes[0], tomos.fbp(tomos.Projector(None, geometry), b), 1e-5)


def test_distances_of_a_scanner(tmp_path):
    """A distance replaces that of the scanner's file, which says the kind of beam."""
    (tmp_path / "Projection").mkdir()
    for i in range(16):
        np.full((4, 8), 900, "<u2").tofile(tmp_path / "Projection" / f"_1_{i:04}.raw")
    (tmp_path / "scan.xml").write_text(
        "<a><Recon><ProjectionDimX>8</ProjectionDimX><ProjectionDimY>4</ProjectionDimY>"
        "<ProjectionPixelSizeX>0.5</ProjectionPixelSizeX><ProjectionPixelSizeY>0.5"
        "</ProjectionPixelSizeY><ProjectionCount>16</ProjectionCount></Recon><Geometrie>"
        "<SourceDetectorDist>600</SourceDetectorDist><SourceObjectDist>120</SourceObjectDist>"
        "</Geometrie></a>")
    report = tomos.run(tmp_path / "scan.xml", tmp_path / "rec.h5", source_axis="15cm", i0=900,
                       axis=3.5)
    assert report.shape == (4, 8, 8)
    assert tomos.info(tmp_path / "rec.h5").grid.step[0] == pytest.approx(0.125)
    with pytest.raises(tomos.BadValue, match="no effect"):
        tomos.run(tmp_path / "scan.xml", tmp_path / "rec.h5", pitch=3, overwrite=True)
