"""Files with volumes or projections."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from ._arrays import Array, any_shape, to_host
from ._call import call
from ._geometry import Geometry, Grid
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


@contextmanager
def _open(path: _Path, dataset: str) -> Iterator[int]:
    options = GROUPS["file"].fill(dataset=dataset)
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
                    tuple(s.shape), grid, geometry)


def read(path: _Path, first: int = 0, count: Optional[int] = None, dataset: str = "") -> np.ndarray:
    """The array in a file as float32, or `count` slices or views from `first` on.

    Reads HDF5, NumPy, MetaImage and TIFF files and folders of TIFF files; the content decides.

    >>> tomos.write("b.tiff", np.ones((2, 3, 4)), content="volume")
    >>> tomos.read("b.tiff", first=1).shape
    (1, 3, 4)
    """
    with _open(path, dataset) as file:
        n, rows, columns = _describe(file).shape
        count = n - first if count is None else count
        data = np.empty((max(count, 0), rows, columns), np.float32)
        call(lib.file_read, file, first, count, data.ctypes.data, keep=data, wait=True)
        return data


def write(path: _Path, data: Array, *, grid: Optional[Grid] = None,
          geometry: Optional[Geometry] = None, content: Optional[str] = None,
          overwrite: bool = False) -> None:
    """Writes an array, with its grid or geometry where the format can store it.

    The extension selects the format: .h5, .npy, .tiff, .mha, ..., or a final / for a folder of TIFF
    files. `content` is "volume" or "projections"; by default projections if there is a geometry.

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
        if grid is not None:
            check(lib.file_set_grid(file, ctypes.byref(grid._struct)))
        if geometry is not None:
            check(lib.file_set_geometry(file, geometry._handle))
        call(lib.file_write, file, 0, array.shape[0], array.ctypes.data, keep=array, wait=True)
        call(lib.file_commit, file, wait=True)
    finally:
        lib.file_close(file)
