"""Volumes that tomos writes, opened by the libraries people use: the same numbers at the same place.

The value of every voxel is a function of its coordinates, so a wrong order of axes, direction, spacing,
origin or unit gives other numbers there.
"""
import gzip
from types import SimpleNamespace

import numpy as np
import pytest
import tomos
from conftest import COMMAND, command

SHAPE = (3, 4, 5)
GRID = tomos.Grid(SHAPE, voxel=(0.5, 0.25, 2), centre=(7, -3, 11))


def value(x, y, z):
    return (x + 10 * y + 100 * z).astype(np.float32)


def places(grid):
    z, y, x = (f + s * np.arange(n) for f, s, n in
               zip(grid.first[::-1], grid.step[::-1], grid.shape))
    return np.meshgrid(z, y, x, indexing="ij")[::-1]


@pytest.fixture
def volume(tmp_path):
    data = value(*places(GRID))

    def write(name):
        tomos.write(tmp_path / name, data, grid=GRID, value_unit="1/mm")
        return tmp_path / name
    return SimpleNamespace(data=data, write=write, folder=tmp_path)


@pytest.mark.parametrize("name", ["v.nii", "v.nii.gz"])
def test_nibabel(volume, name):
    nibabel = pytest.importorskip("nibabel")
    image = nibabel.load(volume.write(name))
    assert image.header.get_xyzt_units()[0] == "mm"
    assert image.get_data_dtype() == np.float32
    data = np.asarray(image.dataobj)
    assert data.shape == SHAPE[::-1]
    for affine in (image.affine, image.get_qform(), image.get_sform()):
        index = np.indices(data.shape).reshape(3, -1)
        right, anterior, superior = nibabel.affines.apply_affine(affine, index.T).T
        np.testing.assert_allclose(data.ravel(), value(-right, -anterior, superior), rtol=1e-6)


def test_nibabel_integers(volume):
    nibabel = pytest.importorskip("nibabel")
    if COMMAND is None:
        pytest.skip("the command is neither installed nor built")
    path, packed = volume.write("v.h5"), volume.folder / "packed.nii"
    low, high = float(volume.data.min()), float(volume.data.max())
    command("convert", path, packed, "--type", "uint16", "--window", f"{low},{high}")
    image = nibabel.load(packed)
    assert image.get_data_dtype() == np.uint16
    step = (high - low) / 65535
    np.testing.assert_allclose(image.get_fdata().T, volume.data, atol=0.51 * step)
    np.testing.assert_allclose(tomos.read(packed), image.get_fdata().T, rtol=1e-6)
    assert not (volume.folder / "packed.nii.scale.txt").exists()


@pytest.mark.parametrize("kind", ["Nifti1Image", "Nifti2Image"])
@pytest.mark.parametrize("unit, factor", [("mm", 1), ("micron", 1000), ("meter", 0.001)])
def test_nibabel_to_tomos(volume, kind, unit, factor):
    """The other way round, in big-endian int16 with slope and intercept."""
    nibabel = pytest.importorskip("nibabel")
    sign = np.array([-1, -1, 1, 1])
    affine = sign[:, None] * np.array(
        [*(np.append(np.eye(3)[i] * GRID.step[i], GRID.first[i]) * factor for i in range(3)),
         [0, 0, 0, 1]])
    stored = np.arange(60, dtype=">i2").reshape(SHAPE[::-1])
    module = {"Nifti1Image": nibabel.nifti1, "Nifti2Image": nibabel.nifti2}[kind]
    header = getattr(module, kind.replace("Image", "Header"))(endianness=">")
    header.set_data_dtype(">i2")
    image = getattr(nibabel, kind)(stored, affine, header)
    image.header.set_xyzt_units(unit)
    image.header.set_slope_inter(0.5, -3)
    nibabel.save(image, volume.folder / "theirs.nii.gz")
    info = tomos.info(volume.folder / "theirs.nii.gz")
    assert (info.format, info.dtype, info.shape) == ("nifti", "int16", SHAPE)
    np.testing.assert_allclose(info.grid.first, GRID.first, rtol=1e-6)
    np.testing.assert_allclose(info.grid.step, GRID.step, rtol=1e-6)
    expected = nibabel.load(volume.folder / "theirs.nii.gz").get_fdata().T
    np.testing.assert_allclose(tomos.read(volume.folder / "theirs.nii.gz"), expected, rtol=1e-6)


def test_pynrrd(volume):
    nrrd = pytest.importorskip("nrrd")
    data, header = nrrd.read(str(volume.write("v.nrrd")))
    np.testing.assert_array_equal(data.T, volume.data)
    assert header["space"] == "left-posterior-superior"
    assert header["space units"] == ["mm", "mm", "mm"]
    np.testing.assert_array_equal(header["space directions"], np.diag(GRID.step))
    np.testing.assert_array_equal(header["space origin"], GRID.first)


@pytest.mark.parametrize("encoding", ["raw", "gzip"])
@pytest.mark.parametrize("detached", [False, True])
def test_pynrrd_to_tomos(volume, encoding, detached):
    nrrd = pytest.importorskip("nrrd")
    path = volume.folder / ("theirs.nhdr" if detached else "theirs.nrrd")
    ras = np.array([-1, -1, 1])
    header = {"space": "right-anterior-superior", "encoding": encoding,
              "space directions": np.diag(GRID.step * ras * 1000),
              "space origin": GRID.first * ras * 1000, "space units": ["um"] * 3}
    nrrd.write(str(path), volume.data.T.astype(">f8"), header, detached_header=detached)
    info = tomos.info(path)
    assert (info.format, info.dtype, info.shape) == ("nrrd", "float64", SHAPE)
    np.testing.assert_allclose(info.grid.first, GRID.first, rtol=1e-12)
    np.testing.assert_allclose(info.grid.step, GRID.step, rtol=1e-12)
    np.testing.assert_array_equal(tomos.read(path), volume.data)


@pytest.mark.parametrize("name", ["v.mhd", "v.mha", "v.nii", "v.nii.gz", "v.nrrd"])
def test_itk(volume, name):
    sitk = pytest.importorskip("SimpleITK")
    image = sitk.ReadImage(str(volume.write(name)))
    data = sitk.GetArrayFromImage(image)
    np.testing.assert_array_equal(data, volume.data)
    np.testing.assert_allclose(image.GetSpacing(), np.abs(GRID.step), rtol=1e-6)
    for k, j, i in ((0, 0, 0), (2, 0, 1), (0, 3, 0), (1, 2, 4)):
        place = np.array(image.TransformIndexToPhysicalPoint((i, j, k)))
        np.testing.assert_allclose(data[k, j, i], value(*place), rtol=1e-5)
    head = (volume.folder / name).read_bytes()[:1024]
    assert not any(b"." in line for line in head.split(b"\n") if line.startswith(b"Comment"))


@pytest.mark.parametrize("name", ["v.mha", "v.nii", "v.nii.gz", "v.nrrd"])
def test_itk_to_tomos(volume, name):
    sitk = pytest.importorskip("SimpleITK")
    image = sitk.GetImageFromArray(volume.data)
    image.SetSpacing(np.abs(GRID.step))
    image.SetOrigin(GRID.first)
    image.SetDirection(np.diag(np.sign(GRID.step)).ravel())
    sitk.WriteImage(image, str(volume.folder / name))
    found = tomos.info(volume.folder / name).grid
    np.testing.assert_allclose(found.first, GRID.first, rtol=1e-6)
    np.testing.assert_allclose(found.step, GRID.step, rtol=1e-6)
    np.testing.assert_array_equal(tomos.read(volume.folder / name), volume.data)


def test_vtk(volume):
    pytest.importorskip("vtk")
    from vtk.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkIOXML import vtkXMLImageDataReader
    reader = vtkXMLImageDataReader()
    reader.SetFileName(str(volume.write("v.vti")))
    reader.Update()
    image = reader.GetOutput()
    assert image.GetDimensions() == SHAPE[::-1]
    data = vtk_to_numpy(image.GetPointData().GetScalars())
    points = np.array([image.GetPoint(i) for i in range(image.GetNumberOfPoints())])
    np.testing.assert_array_equal(data, volume.data.ravel())
    np.testing.assert_allclose(data, value(*points.T), rtol=1e-6)


@pytest.mark.parametrize("mode", ["Appended", "Binary"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("base64", [False, True])
def test_vtk_to_tomos(volume, mode, packed, base64):
    pytest.importorskip("vtk")
    from vtk.util.numpy_support import numpy_to_vtk
    from vtkmodules.vtkCommonDataModel import vtkImageData
    from vtkmodules.vtkIOXML import vtkXMLImageDataWriter
    image = vtkImageData()
    shape = (20, 30, 40)  # several blocks
    data = np.random.default_rng(1).integers(0, 50, shape).astype(np.float64)
    image.SetDimensions(shape[::-1])
    image.SetSpacing(np.abs(GRID.step))
    image.SetOrigin(GRID.first)
    image.SetDirectionMatrix(np.diag(np.sign(GRID.step)).ravel())
    image.GetPointData().SetScalars(numpy_to_vtk(data.ravel(), deep=True))
    writer = vtkXMLImageDataWriter()
    writer.SetFileName(str(volume.folder / "theirs.vti"))
    writer.SetInputData(image)
    getattr(writer, f"SetDataModeTo{mode}")()
    writer.SetEncodeAppendedData(base64)
    writer.SetBlockSize(32768)
    if not packed:
        writer.SetCompressorTypeToNone()
    writer.Write()
    found = tomos.info(volume.folder / "theirs.vti")
    np.testing.assert_allclose(found.grid.first, GRID.first)
    np.testing.assert_allclose(found.grid.step, GRID.step)
    np.testing.assert_array_equal(tomos.read(volume.folder / "theirs.vti"), data)


def test_gzip_is_one_member(volume):
    """Some readers stop after the first member; larger than one block of the packer."""
    data = np.random.default_rng(2).integers(0, 9, (5, 512, 300)).astype(np.float32)
    tomos.write(volume.folder / "large.nii.gz", data)
    packed = (volume.folder / "large.nii.gz").read_bytes()
    assert len(packed) < data.nbytes / 4
    assert len(gzip.decompress(packed)) == 352 + data.nbytes
    np.testing.assert_array_equal(tomos.read(volume.folder / "large.nii.gz"), data)
    import zlib
    unpacker = zlib.decompressobj(31)
    assert len(unpacker.decompress(packed)) == 352 + data.nbytes and not unpacker.unused_data


def test_nexus(volume):
    """The plot that a viewer shows by default: h5py follows the attributes, silx does it by itself."""
    h5py = pytest.importorskip("h5py")
    path = volume.write("v.nxs")
    with h5py.File(path) as file:
        entry = file[file.attrs["default"]]
        plot = entry[entry.attrs["default"]]
        assert [group.attrs["NX_class"] for group in (file, entry, plot)] == \
            [b"NXroot", b"NXentry", b"NXdata"]
        signal = plot[plot.attrs["signal"]]
        axes = [plot[name] for name in plot.attrs["axes"]]
        assert signal.attrs["units"] == b"1/mm" and all(a.attrs["units"] == b"mm" for a in axes)
        z, y, x = np.meshgrid(*axes, indexing="ij")
        np.testing.assert_allclose(signal[()], value(x, y, z), rtol=1e-6)
        assert signal == file["volume"]
    np.testing.assert_array_equal(tomos.read(path), volume.data)


def test_silx(volume):
    nxdata = pytest.importorskip("silx.io.nxdata")
    from silx.io import open as silx_open
    with silx_open(str(volume.write("v.nxs"))) as file:
        found = nxdata.get_default(file)
        assert found.is_valid and found.signal_name == "values (1/mm)"
        assert found.axes_dataset_names == ["z", "y", "x"]
        np.testing.assert_array_equal(found.signal[()], volume.data)
        np.testing.assert_allclose(found.axes[1][()], GRID.first[1] + GRID.step[1] * np.arange(4))


def test_scan_as_nexus(tmp_path):
    """Projections in a .nxs file are shown as images and still read as a scan."""
    h5py = pytest.importorskip("h5py")
    scan = tomos.parallel(views=6, rows=2, columns=5)
    data = np.arange(60, dtype=np.float32).reshape(scan.shape)
    tomos.write(tmp_path / "p.nxs", data, geometry=scan)
    with h5py.File(tmp_path / "p.nxs") as file:
        assert file["entry/data"].attrs["signal"] == b"data"
        np.testing.assert_array_equal(file["entry/data/data"][()], data)
    info = tomos.info(tmp_path / "p.nxs")
    assert info.content == "projections" and info.geometry is not None
    np.testing.assert_array_equal(tomos.read(tmp_path / "p.nxs"), data)


def test_imagej(volume):
    """Pixels per unit, distance of slices, unit and range, where ImageJ looks for them."""
    tifffile = pytest.importorskip("tifffile")
    with tifffile.TiffFile(volume.write("v.tif")) as file:
        assert file.is_imagej and len(file.pages) == 3
        said = file.imagej_metadata
        assert said["images"] == said["slices"] == 3 and said["unit"] == "mm"
        assert said["spacing"] == 2 and said["min"] < said["max"]
        assert volume.data.min() <= said["min"] and said["max"] <= volume.data.max()
        page = file.pages[2]
        assert "ImageDescription" not in page.tags
        assert page.tags["XResolution"].value == (2, 1)
        assert page.tags["YResolution"].value == (4, 1)
        assert page.tags["ResolutionUnit"].value == 1
        assert file.series[0].axes == "ZYX"
        np.testing.assert_array_equal(file.asarray(), volume.data)


def test_imagej_folder(volume):
    tifffile = pytest.importorskip("tifffile")
    folder = volume.folder / "slices"
    tomos.write(f"{folder}/", volume.data, grid=GRID)
    for i, plane in enumerate(volume.data):
        with tifffile.TiffFile(folder / f"recon_{i:05d}.tiff") as file:
            assert file.is_imagej and file.imagej_metadata["unit"] == "mm"
            assert file.pages[0].tags["YResolution"].value == (4, 1)
            np.testing.assert_array_equal(file.asarray(), plane)


def test_imagej_values(volume):
    """Integers have the line that maps them to values."""
    tifffile = pytest.importorskip("tifffile")
    if COMMAND is None:
        pytest.skip("the command is neither installed nor built")
    command("convert", volume.write("v.h5"), volume.folder / "v8.tif", "--type", "uint8",
            "--window", "800,1400")
    with tifffile.TiffFile(volume.folder / "v8.tif") as file:
        said = file.imagej_metadata
        values = said["c0"] + said["c1"] * file.asarray().astype(float)
        np.testing.assert_allclose(values, volume.data, atol=0.51 * 600 / 255)
        assert (said["min"], said["max"], said["cf"]) == (0, 255, 0)


@pytest.mark.parametrize("name", ["v.ome.tif", "v.ome.tiff"])
def test_ome_tiff(volume, name):
    tifffile = pytest.importorskip("tifffile")
    from xml.etree import ElementTree
    path = volume.write(name)
    with tifffile.TiffFile(path) as file:
        assert file.is_ome and not file.is_imagej
        assert file.series[0].axes == "ZYX" and file.series[0].kind == "ome"
        np.testing.assert_array_equal(file.series[0].asarray(), volume.data)
        assert file.pages[0].tags["XResolution"].value == (20, 1)  # per cm
        assert file.pages[0].tags["ResolutionUnit"].value == 3
        pixels = next(e for e in ElementTree.fromstring(file.ome_metadata).iter()
                      if e.tag.endswith("Pixels"))
    assert [float(pixels.get(f"PhysicalSize{a}")) for a in "XYZ"] == [0.5, 0.25, 2]
    assert [pixels.get(f"PhysicalSize{a}Unit") for a in "XYZ"] == ["mm"] * 3
    assert [int(pixels.get(f"Size{a}")) for a in "XYZCT"] == [5, 4, 3, 1, 1]
    assert pixels.get("Type") == "float" and pixels.get("DimensionOrder") == "XYZCT"
    np.testing.assert_array_equal(tomos.read(path), volume.data)
