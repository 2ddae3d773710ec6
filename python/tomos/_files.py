"""Files with volumes or projections."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Optional, Sequence, Union

import numpy as np

from ._arrays import Array, any_shape, to_host
from ._call import call
from ._geometry import Geometry, Grid
from ._html import table, times
from ._library import FileInfoStruct, GridStruct, Shape, check, lib, new
from ._options import GROUPS

_Path = Union[str, os.PathLike]
_CONTENTS = ("volume", "projections", "unknown")


class Info(NamedTuple):
    """The content of a file."""
    format: str
    dtype: str                    #: as stored
    dataset: str                  #: HDF5: path of the data
    content: str                  #: "volume", "projections" or "unknown"
    shape: tuple[int, int, int]
    grid: Optional[Grid]          #: of a volume, where the file has one
    geometry: Optional[Geometry]  #: of projections, where the file has one
    unit: str = ""                #: of lengths: "mm"; "pixel" where sizes are not known; "": not said
    value_unit: str = ""          #: of values: "1/mm", "HU", ...; "": not said

    def _repr_html_(self) -> str:
        return table("File", {
            "format": self.format, "numbers": self.dtype, "dataset": self.dataset,
            "content": self.content, "shape": times(self.shape),
            "grid": self.grid and repr(self.grid), "geometry": self.geometry and
            repr(self.geometry), "unit": self.unit, "unit of values": self.value_unit})


@contextmanager
def _open(path: _Path, dataset: str, level: int = 0) -> Iterator[int]:
    options = GROUPS["file"].fill(dataset=dataset, level=level)
    file = new(lib.file_open, os.fsencode(path), ctypes.byref(options))
    try:
        yield file
    finally:
        lib.file_close(file)


def _describe(file: int) -> FileInfoStruct:
    struct = FileInfoStruct()
    check(lib.file_describe(file, ctypes.byref(struct)))
    return struct


def info(path: _Path, dataset: str = "") -> Info:
    """The content of a file: format, type, shape, grid and geometry.

    >>> tomos.write("a.npy", np.zeros((2, 3, 4)), content="volume")
    >>> tomos.info("a.npy").shape
    (2, 3, 4)
    """
    with _open(path, dataset) as file:
        s = _describe(file)
        grid = geometry = None
        if s.has_grid:
            struct = GridStruct()
            check(lib.file_grid(file, ctypes.byref(struct)))
            grid = Grid._of(struct)
        if s.has_geometry:
            handle = ctypes.c_void_p()
            check(lib.file_geometry(file, ctypes.byref(handle)))
            geometry = Geometry._of(handle.value, "views")
        return Info(s.format.decode(), s.type.decode(), s.dataset.decode(), _CONTENTS[s.content],
                    tuple(s.shape), grid, geometry, s.length_unit.decode(), s.value_unit.decode())


def read(path: _Path, first: int = 0, count: Optional[int] = None, dataset: str = "",
         level: int = 0) -> np.ndarray:
    """The array in a file as float32, or `count` slices or views from `first` on.

    Reads HDF5, NumPy, MetaImage, NIfTI, NRRD, VTI, OME-Zarr and TIFF files and folders of TIFF files;
    the content decides. `level` is the level of resolution of an OME-Zarr file, 0 the full one.

    >>> tomos.write("b.tiff", np.ones((2, 3, 4)), content="volume")
    >>> tomos.read("b.tiff", first=1).shape
    (1, 3, 4)
    """
    with _open(path, dataset, level) as file:
        n, rows, columns = _describe(file).shape
        count = n - first if count is None else count
        data = np.empty((max(count, 0), rows, columns), np.float32)
        call(lib.file_read, file, first, count, data.ctypes.data, keep=data, wait=True)
        return data


def read_box(path: _Path, first: Sequence[int] = (0, 0, 0), count: Optional[Sequence[int]] = None,
             step: Sequence[int] = (1, 1, 1), dataset: str = "", level: int = 0) -> np.ndarray:
    """Samples of the array in a file as float32: `count` along each axis from `first` on, `step` apart.

    Little more than the samples is read, as far as the format allows; by default all up to the end.
    `level` is that of `tomos.read`.

    >>> tomos.write("c.npy", np.arange(60).reshape(3, 4, 5))
    >>> tomos.read_box("c.npy", first=(1, 0, 0), step=(2, 3, 2))
    array([[[20., 22., 24.],
            [35., 37., 39.]]], dtype=float32)
    """
    with _open(path, dataset, level) as file:
        shape = _describe(file).shape
        if count is None:
            count = [max((n - f - 1) // s + 1, 0) for n, f, s in zip(shape, first, step)]
        data = np.empty([max(n, 0) for n in count], np.float32)
        call(lib.file_read_box, file, Shape(*first), Shape(*count), Shape(*step), data.ctypes.data,
             keep=data, wait=True)
        return data


def write(path: _Path, data: Array, *, grid: Optional[Grid] = None,
          geometry: Optional[Geometry] = None, content: Optional[str] = None,
          overwrite: bool = False, unit: Optional[str] = None,
          value_unit: Optional[str] = None) -> None:
    """Writes an array, with its grid or geometry where the format can store it.

    The extension selects the format: .h5, .npy, .tiff, .mha, .nii.gz, .ome.zarr, ..., or a final / for a folder of TIFF
    files. `content` is "volume" or "projections"; by default projections if there is a geometry.
    `unit` is that of lengths, by default mm except for voxels or pixels of 1, and "pixel" where sizes are not known; `value_unit`
    that of the values, "1/mm" or "HU".

    >>> scan = tomos.parallel(views=4, columns=8)
    >>> tomos.write("scan.h5", np.zeros(scan.shape), geometry=scan)
    >>> tomos.info("scan.h5").content
    'projections'
    """
    content = content or ("projections" if geometry is not None else "volume")
    if content not in _CONTENTS[:2]:
        raise ValueError(f"content {content!r} is not known; it is volume or projections")
    view = any_shape(to_host(data), "data")
    array = np.ascontiguousarray(view.owner)
    options = GROUPS["file"].fill(overwrite=overwrite)
    file = new(lib.file_create, os.fsencode(path), _CONTENTS.index(content), Shape(*array.shape),
               ctypes.byref(options))
    try:
        check(lib.file_set_units(file, *(None if u is None else u.encode()
                                         for u in (unit, value_unit))))
        if grid is not None:
            check(lib.file_set_grid(file, ctypes.byref(grid._struct)))
        if geometry is not None:
            check(lib.file_set_geometry(file, geometry._handle))
        call(lib.file_write, file, 0, array.shape[0], array.ctypes.data, keep=array, wait=True)
        call(lib.file_commit, file, wait=True)
    finally:
        lib.file_close(file)
