"""Compressed HDF5 files as h5py and hdf5plugin write them: read as they are, damaged ones rejected."""
import random

import numpy as np
import pytest

import tomos

h5py = pytest.importorskip("h5py")
plugin = pytest.importorskip("hdf5plugin")

FILTERS = {
    "none": {},
    "gzip": {"compression": "gzip"},
    "gzip shuffle fletcher32": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "fletcher32": {"fletcher32": True},
    "lzf": {"compression": "lzf"},
    "lzf shuffle": {"compression": "lzf", "shuffle": True},
    "lz4": plugin.LZ4(),
    "lz4 blocks": plugin.LZ4(nbytes=1000),
    "zstd": plugin.Zstd(),
    "zstd shuffle": {"shuffle": True, **plugin.Zstd()},
    "bitshuffle": plugin.Bitshuffle(cname="none"),
    "bitshuffle lz4": plugin.Bitshuffle(cname="lz4"),
    "bitshuffle lz4 blocks": plugin.Bitshuffle(nelems=64, cname="lz4"),
    "bitshuffle zstd": plugin.Bitshuffle(cname="zstd"),
    "blosc lz4": plugin.Blosc(cname="lz4", shuffle=1),
    "blosc blosclz": plugin.Blosc(cname="blosclz", shuffle=0),
    "blosc zlib bits": plugin.Blosc(cname="zlib", shuffle=2),
    "blosc zstd": plugin.Blosc(cname="zstd", shuffle=2),
}
TYPES = ["u1", "u2", ">u2", "i2", ">i4", "u4", "f2", "f4", ">f4", "f8"]


def array(shape, dtype, choose):
    """Noise, or numbers that compress well."""
    rng = np.random.default_rng(choose.randrange(2**32))
    smooth = np.arange(np.prod(shape)).reshape(shape) // 7 % 100
    return (smooth if choose.random() < 0.5 else 100 * rng.random(shape)).astype(dtype)


def write(path, data, chunks, part, **options):
    with h5py.File(path, "w") as file:
        made = file.create_dataset("volume", data.shape, data.dtype, chunks=chunks, fillvalue=3,
                                   **options)
        made[:part] = data[:part]
        return made[()].astype(np.float32)


def read_or_skip(path, *part):
    """A build without the library of a filter asks for the plug-in of HDF5."""
    try:
        return tomos.read(path, *part)
    except tomos.Error as error:
        if "plug-in was not found" in str(error):
            pytest.skip("tomos was built without the library of this filter")
        raise


@pytest.mark.parametrize("name", FILTERS)
def test_filters(tmp_path, name):
    choose = random.Random(name)
    path = tmp_path / "scan.h5"
    for dtype in TYPES:
        for _ in range(3):
            shape = tuple(choose.randint(1, 40) for _ in range(3))
            chunks = tuple(choose.randint(1, n) for n in shape)
            part = choose.choice([shape[0], max(1, shape[0] // 2)])
            wanted = write(path, array(shape, dtype, choose), chunks, part, **FILTERS[name])
            np.testing.assert_array_equal(read_or_skip(path), wanted)
            first = choose.randrange(shape[0])
            np.testing.assert_array_equal(tomos.read(path, first, 1), wanted[first:first + 1])


@pytest.mark.parametrize("name", FILTERS)
def test_large_chunks(tmp_path, name):
    """Frames of several blocks of every filter."""
    path = tmp_path / "scan.h5"
    data = array((5, 301, 257), "u2", random.Random(name))
    wanted = write(path, data, (1, 301, 257), 5, **FILTERS[name])
    np.testing.assert_array_equal(read_or_skip(path), wanted)


@pytest.mark.parametrize("name", FILTERS)
def test_damage(tmp_path, name):
    """Any flipped bit or lost end is rejected with a message, or gives other numbers."""
    choose = random.Random(name)
    path, damaged = tmp_path / "scan.h5", tmp_path / "damaged.h5"
    write(path, array((6, 30, 40), "u2", choose), (1, 30, 40), 6, **FILTERS[name])
    read_or_skip(path)
    whole = path.read_bytes()
    for k in range(60):
        if k % 6 == 0:
            damaged.write_bytes(whole[:choose.randrange(len(whole))])
        else:
            at = choose.randrange(len(whole))
            damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << k % 8]) + whole[at + 1:])
        try:
            tomos.read(damaged)
        except (tomos.Error, OSError, ValueError) as error:
            assert "damaged.h5" in str(error)
