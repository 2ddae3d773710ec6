"""OME-Zarr: what other libraries read of it, and what they write."""
import json

import numpy as np
import pytest

import tomos

from conftest import command

zarr = pytest.importorskip("zarr", minversion="3")

SHAPE = (70, 67, 133)
WAYS = {"plain": [], "zstd": ["--compress", 3], "version 2": ["--zarr", 2],
        "version 2 zstd": ["--zarr", 2, "--compress", 1], "uint16": ["--type", "uint16"],
        "uint8 zstd": ["--type", "uint8", "--compress", 1]}


@pytest.fixture(scope="module")
def volume():
    return np.random.default_rng(3).normal(size=SHAPE).astype(np.float32)


@pytest.fixture(params=WAYS)
def written(request, volume, tmp_path):
    np.save(tmp_path / "v.npy", volume)
    path = tmp_path / "v.ome.zarr"
    command("convert", tmp_path / "v.npy", path, "--voxel", "0.1,0.2,0.3", *WAYS[request.param])
    return path


def halved(a):
    """Means of 2 x 2 x 2 voxels; at an odd end, of those that exist."""
    a = np.pad(a.astype(np.float64), [(0, n % 2) for n in a.shape], mode="edge")
    z, y, x = (n // 2 for n in a.shape)
    return a.reshape(z, 2, y, 2, x, 2).mean(axis=(1, 3, 5))


def image(path):
    attributes = zarr.open_group(path, mode="r").attrs
    return attributes.get("ome", attributes)


def test_zarr_python(written, volume):
    group = zarr.open_group(written, mode="r")
    levels = [group[d["path"]] for d in image(written)["multiscales"][0]["datasets"]]
    assert [a.shape for a in levels] == [(70, 67, 133), (35, 34, 67), (18, 17, 34)]
    data = levels[0][:]
    if data.dtype == np.float32:
        np.testing.assert_array_equal(data, volume)
    else:
        scale = levels[0].attrs["scale_factor"]
        np.testing.assert_allclose(data * scale + levels[0].attrs["add_offset"], volume, atol=scale)
    for level in levels[1:]:
        wanted = halved(data)
        data = level[:]
        np.testing.assert_allclose(data, wanted, atol=1e-5 if data.dtype == np.float32 else 0.5)


def test_tomos_reads_it(written, volume):
    info = tomos.info(written)
    assert info.format == "zarr" and info.content == "volume" and info.shape == SHAPE
    np.testing.assert_allclose(np.abs(info.grid.step), [0.1, 0.2, 0.3])
    np.testing.assert_allclose(tomos.read(written), volume, atol=0.05)
    stored = zarr.open_group(written, mode="r")["1"]
    if stored.dtype == np.float32:
        np.testing.assert_array_equal(tomos.read(written, level=1), stored[:])
        np.testing.assert_array_equal(
            tomos.read_box(written, first=(1, 0, 2), step=(2, 1, 3), level=1), stored[1::2, :, 2::3])


def test_places(written):
    """The centre of a voxel of level k is that of the 2^k voxels it is made of."""
    multiscales = image(written)["multiscales"][0]
    assert [(a["name"], a["unit"]) for a in multiscales["axes"]] == [
        (name, "millimeter") for name in "zyx"]
    for k, dataset in enumerate(multiscales["datasets"]):
        scale, translation = dataset["coordinateTransformations"]
        np.testing.assert_allclose(scale["scale"], 2**k * np.array([0.3, 0.2, 0.1]))
        first = -(np.array(SHAPE) - 1) / 2 * np.array([0.3, 0.2, 0.1])
        np.testing.assert_allclose(translation["translation"],
                                   first + (2**k - 1) / 2 * np.array([0.3, 0.2, 0.1]))


def test_window(written, volume):
    window = image(written)["omero"]["channels"][0]["window"]
    data = zarr.open_group(written, mode="r")["0"][:]
    assert (window["start"], window["end"]) == (data.min(), data.max())


def test_tensorstore(written):
    ts = pytest.importorskip("tensorstore")
    group = zarr.open_group(written, mode="r")
    driver = "zarr3" if group.metadata.zarr_format == 3 else "zarr"
    for level in "012":
        store = {"driver": "file", "path": str(written / level)}
        data = ts.open({"driver": driver, "kvstore": store}).result().read().result()
        np.testing.assert_array_equal(data, group[level][:])


def test_ngff_zarr(written):
    ngff_zarr = pytest.importorskip("ngff_zarr")
    pytest.importorskip("jsonschema")  # to validate
    images = ngff_zarr.from_ngff_zarr(str(written), validate=True).images
    group = zarr.open_group(written, mode="r")
    assert len(images) == 3
    assert images[1].scale == pytest.approx({"z": 0.6, "y": 0.4, "x": 0.2})
    np.testing.assert_array_equal(images[1].data.compute(), group["1"][:])


def test_ome_zarr_py(written):
    reader = pytest.importorskip("ome_zarr.reader")
    from ome_zarr.io import parse_url
    node = next(iter(reader.Reader(parse_url(str(written)))()))
    group = zarr.open_group(written, mode="r")
    assert len(node.data) == 3
    np.testing.assert_array_equal(node.data[0].compute(), group["0"][:])


def test_validator(written):
    models = pytest.importorskip("ome_zarr_models")
    group = zarr.open_group(written, mode="r")
    found = models.open_ome_zarr(group)
    assert type(found).__name__ == "Image"
    assert (".v05." if group.metadata.zarr_format == 3 else ".v04.") in type(found).__module__


def test_scan_in_a_zarr_file(tmp_path):
    """Projections keep their views, and are reconstructed like those of any other file."""
    scan = tomos.parallel(views=20, rows=3, columns=24)
    A = tomos.Projector(tomos.Grid((24, 24, 3)), scan)
    b = A @ tomos.phantom("shepp-logan", A.grid)
    for name in ("scan.h5", "scan.zarr"):
        tomos.write(tmp_path / name, b, geometry=scan)
        command("recon", tmp_path / name, "-o", tmp_path / (name + ".npy"))
    assert tomos.info(tmp_path / "scan.zarr").geometry.shape == scan.shape
    np.testing.assert_array_equal(np.load(tmp_path / "scan.zarr.npy"),
                                  np.load(tmp_path / "scan.h5.npy"))


def codecs():
    c = zarr.codecs
    return {
        "none": {"compressors": None},
        "zstd": {"compressors": c.ZstdCodec(level=3)},
        "zstd checksum": {"compressors": c.ZstdCodec(level=1, checksum=True)},
        "gzip": {"compressors": c.GzipCodec(level=5)},
        "blosc": {"compressors": c.BloscCodec(cname="lz4", shuffle="bitshuffle")},
        "blosc zstd": {"compressors": c.BloscCodec(cname="zstd", shuffle="shuffle")},
        "crc": {"compressors": [c.ZstdCodec(), c.Crc32cCodec()]},
        "big": {"serializer": c.BytesCodec(endian="big")},
        "transpose": {"filters": [c.TransposeCodec(order=(2, 0, 1))]},
        "shards": {"shards": (20, 32, 40), "compressors": c.ZstdCodec()},
        "shards plain": {"shards": (20, 32, 40), "compressors": None},
    }


@pytest.mark.parametrize("name", codecs())
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
def test_version_3(name, dtype, tmp_path):
    data = (100 * np.random.default_rng(1).random((23, 37, 41))).astype(dtype)
    array = zarr.create_array(tmp_path / "a.zarr", shape=data.shape, dtype=dtype, fill_value=3,
                              chunks=(10, 16, 20), **codecs()[name])
    array[:] = data
    np.testing.assert_array_equal(tomos.read(tmp_path / "a.zarr"), data.astype(np.float32))
    np.testing.assert_array_equal(tomos.read(tmp_path / "a.zarr", 7, 1), data[7:8].astype("f4"))


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("separator", "./")
@pytest.mark.parametrize("name", ["none", "zlib", "gzip", "zstd", "blosc", "lz4"])
def test_version_2(name, separator, order, tmp_path):
    numcodecs = pytest.importorskip("numcodecs")
    made = {"none": None, "zlib": numcodecs.Zlib(4), "gzip": numcodecs.GZip(4),
            "zstd": numcodecs.Zstd(3), "blosc": numcodecs.Blosc(), "lz4": numcodecs.LZ4()}[name]
    data = np.random.default_rng(1).random((23, 37, 41)).astype(">f4")
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=data.shape, dtype=data.dtype, chunks=(10, 16, 20), order=order,
        zarr_format=2, compressors=made,
        chunk_key_encoding={"name": "v2", "separator": separator})
    array[:] = data
    np.testing.assert_array_equal(tomos.read(tmp_path / "a.zarr"), data.astype(np.float32))


def test_missing_chunks_are_the_fill_value(tmp_path):
    array = zarr.create_array(tmp_path / "a.zarr", shape=(20, 20, 20), dtype="f4",
                              chunks=(10, 10, 10), fill_value=np.nan)
    array[:10] = 1
    data = tomos.read(tmp_path / "a.zarr")
    assert (data[:10] == 1).all() and np.isnan(data[10:]).all()


def test_image_of_five_axes(tmp_path):
    data = np.random.default_rng(1).random((1, 1, 8, 9, 10)).astype("f4")
    group = zarr.create_group(tmp_path / "i.zarr")
    group.create_array("s0", data=data, chunks=(1, 1, 4, 4, 4))
    axes = [{"name": "t", "type": "time"}, {"name": "c", "type": "channel"}] + [
        {"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"]
    scale = {"type": "scale", "scale": [1, 1, 3, 2, 2]}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": [
        {"path": "s0", "coordinateTransformations": [scale]}]}]}
    np.testing.assert_array_equal(tomos.read(tmp_path / "i.zarr"), data[0, 0])
    np.testing.assert_allclose(tomos.info(tmp_path / "i.zarr").grid.step, [2e-3, 2e-3, 3e-3])


def test_damaged_chunk(tmp_path):
    array = zarr.create_array(tmp_path / "a.zarr", shape=(20, 20, 20), dtype="f4",
                              chunks=(20, 20, 20), compressors=zarr.codecs.ZstdCodec())
    array[:] = 1
    chunk = tmp_path / "a.zarr" / "c" / "0" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.raises(tomos.Error, match="a chunk is damaged: it is no data packed with zstd"):
        tomos.read(tmp_path / "a.zarr")


def test_unknown_codec(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(4, 4, 4), dtype="f4", chunks=(4, 4, 4))
    meta = tmp_path / "a.zarr" / "zarr.json"
    text = json.loads(meta.read_text())
    text["codecs"].append({"name": "sperr"})
    meta.write_text(json.dumps(text))
    with pytest.raises(tomos.Error, match="codec 'sperr' cannot be read"):
        tomos.read(tmp_path / "a.zarr")
