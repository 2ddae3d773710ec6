"""Files that the command writes, opened by the libraries that people use, hold the same numbers."""
import numpy as np
import pytest
from conftest import COMMAND, command as run

pytestmark = pytest.mark.skipif(COMMAND is None,
                                reason="the command is neither installed nor built")


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """A scan and, as the numbers to compare with, its reconstruction as NumPy wrote them."""
    folder = tmp_path_factory.mktemp("files")
    run("project", "shepp-logan-modified", "--columns", 24, "--rows", 10, "--views", 30, "-o",
        folder / "scan.h5")
    run("recon", folder / "scan.h5", "-o", folder / "truth.npy")
    truth = np.load(folder / "truth.npy")
    assert truth.shape == (10, 24, 24) and truth.dtype == np.float32 and truth.std() > 0
    return folder, truth


def written(volume, name, *options):
    folder, truth = volume
    path = folder / name
    run("recon", folder / "scan.h5", "-o", f"{path}/" if path.suffix == "" else path, *options)
    return path, truth


@pytest.mark.parametrize("level", [0, 4])
def test_h5py(volume, level):
    h5py = pytest.importorskip("h5py")
    path, truth = written(volume, f"volume{level}.h5", "--compress", level)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["volume"][()], truth)
        recipe = file["process/recipe"][()].decode()
        assert "[analytic]\nfilter = ram-lak\n" in recipe
        assert "tomos recon" in file["process/command"][()].decode()


def test_h5py_integers(volume):
    h5py = pytest.importorskip("h5py")
    path, truth = written(volume, "volume16.h5", "--type", "uint16", "--window", "-1,2")
    with h5py.File(path) as file:
        stored = file["volume"][()]
        scale, offset = (float(np.ravel(file[f"storage/{name}"])[0])
                         for name in ("scale", "offset"))
    assert stored.dtype == np.uint16
    np.testing.assert_allclose(offset + scale * stored, truth, atol=0.51 * 3 / 65535)


def test_tifffile(volume):
    tifffile = pytest.importorskip("tifffile")
    path, truth = written(volume, "volume.tiff")
    np.testing.assert_array_equal(tifffile.imread(path), truth)
    folder, _ = written(volume, "slices")
    for i, plane in enumerate(truth):
        np.testing.assert_array_equal(tifffile.imread(folder / f"recon_{i:05d}.tiff"), plane)


@pytest.mark.parametrize("name", ["volume.mhd", "volume.mha"])
def test_itk(volume, name):
    sitk = pytest.importorskip("SimpleITK")
    path, truth = written(volume, name)
    image = sitk.ReadImage(str(path))
    np.testing.assert_array_equal(sitk.GetArrayFromImage(image), truth)
    assert image.GetSize() == (24, 24, 10)


def test_scan_by_h5py(volume, tmp_path):
    """The other way round: a Data Exchange scan that h5py wrote, compressed."""
    h5py = pytest.importorskip("h5py")
    folder, truth = volume
    with h5py.File(folder / "scan.h5") as file:
        data = file["projections"][()]
    with h5py.File(tmp_path / "scan.h5", "w") as file:
        made = file.create_dataset("exchange/data", data=np.exp(-data), chunks=True,
                                   compression="gzip")
        made.attrs["axes"] = "theta:y:x"
        file["exchange/data_white"] = np.ones((2,) + data.shape[1:], np.float32)
        file["exchange/data_dark"] = np.zeros((1,) + data.shape[1:], np.float32)
        file["exchange/theta"] = np.arange(30) * 6.0
    run("recon", tmp_path / "scan.h5", "--axis", 11.5, "-o", tmp_path / "back.npy")
    back = np.load(tmp_path / "back.npy")
    ratio = np.vdot(truth, back) / np.vdot(truth, truth)  # the file says no pixel: one is the unit
    np.testing.assert_allclose(back / ratio, truth, atol=2e-4)
