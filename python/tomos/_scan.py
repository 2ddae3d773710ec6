"""Measured scans: views, flat fields and dark fields in a file or folder."""
from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Optional, Union

import numpy as np

from ._call import call
from ._geometry import Geometry, check_radians
from ._html import table, times
from ._library import ScanInfoStruct, check, lib, new
from ._options import GROUPS, describe_class, with_options

_VIEWS, _FLATS, _DARKS = range(3)


class Scan:
    """A scan in a file: Data Exchange, NXtomo, HDF5 of tomos, a folder of TIFF files, or an array.

    `shape` is (views, rows, columns); `counts` is true if the views are counts, to be divided by
    `flats()`, and false if they are line integrals. `pixel` and `distance` are in mm, `energy` in
    keV; they are 0 if the file does not have them.
    """
    __slots__ = ("path", "kind", "dtype", "counts", "shape", "pixel", "distance", "energy", "half",
                 "_handle", "_info", "__weakref__")

    def __init__(self, path: Union[str, os.PathLike], **options: Any) -> None:
        settings = GROUPS["source"].fill(**options)
        self._handle = new(lib.scan_open, os.fsencode(path), ctypes.byref(settings))
        weakref.finalize(self, lib.scan_close, self._handle)
        self._info = i = ScanInfoStruct()
        check(lib.scan_describe(self._handle, ctypes.byref(i)))
        self.path, self.kind, self.dtype = os.fspath(path), i.kind.decode(), i.type.decode()
        self.counts, self.half = bool(i.counts), bool(i.half)
        self.shape = (i.views, i.rows, i.columns)
        self.pixel, self.distance, self.energy = i.pixel, i.distance, i.energy

    def _read(self, which: int, count: int, rows: Optional[slice]) -> np.ndarray:
        first, end, step = (rows or slice(None)).indices(self.shape[1])
        if step != 1:
            raise ValueError(f"rows are read with step 1, not {step}")
        data = np.empty((count, max(end - first, 0), self.shape[2]), np.float32)
        if data.size:
            call(lib.scan_read, self._handle, which, 0, count, first, end - first, data.ctypes.data,
                 keep=(self, data))
        return data

    def views(self, rows: Optional[slice] = None) -> np.ndarray:
        """The views, (views, rows, columns), or some rows of them."""
        return self._read(_VIEWS, self.shape[0], rows)

    def flats(self, rows: Optional[slice] = None) -> np.ndarray:
        """The flat fields; an empty array if the scan has none."""
        return self._read(_FLATS, self._info.flats, rows)

    def darks(self, rows: Optional[slice] = None) -> np.ndarray:
        """The dark fields; an empty array if the scan has none."""
        return self._read(_DARKS, self._info.darks, rows)

    def _list(self, function, count: int, *arguments: Any) -> np.ndarray:
        values = np.empty(count)
        check(function(self._handle, *arguments, values.ctypes.data))
        return values

    @property
    def angles(self) -> Optional[np.ndarray]:
        """The angle of each view in radians; None if the file has none."""
        return self._list(lib.scan_angles, self.shape[0]) if self._info.has_angles else None

    @property
    def flat_places(self) -> Optional[np.ndarray]:
        """The number of views before each flat field; None if that is not known."""
        if not self._info.has_places:
            return None
        return self._list(lib.scan_places, self._info.flats, _FLATS)

    def geometry(self, *, degrees: Optional[bool] = None, **options: Any) -> Geometry:
        check_radians(options.get("angles"), degrees)
        check_radians(options.get("arc"), degrees, "arc")
        settings = GROUPS["scan"].fill(degrees, facts="scan=1", **options) if options else None
        handle = ctypes.c_void_p()
        check(lib.scan_geometry(self._handle, ctypes.byref(handle),
                                ctypes.byref(settings) if settings else None))
        return Geometry._of(handle.value, options.get("geometry", "views"))

    def _frame(self, view: int) -> np.ndarray:
        """One view, (rows, columns)."""
        data = np.empty(self.shape[1:], np.float32)
        call(lib.scan_read, self._handle, _VIEWS, range(self.shape[0])[view], 1, 0, self.shape[1],
             data.ctypes.data, keep=(self, data))
        return data

    def plot(self, view: Optional[int] = None, row: Optional[int] = None) -> np.ndarray:
        """Draws a view, the sinogram of a row (by default those in the middle) and the mean flat
        field with matplotlib; returns the axes."""
        from ._show import plot_scan
        return plot_scan(self, view, row)

    def _repr_html_(self) -> str:
        i, angles = self._info, self.angles
        return table(f"Scan {self.path}", {
            "kind": self.kind, "views, rows, columns": times(self.shape),
            "numbers": self.dtype + (", counts" if self.counts else ", line integrals"),
            "flat fields": i.flats, "dark fields": i.darks,
            "angles": None if angles is None else
            f"{np.degrees(angles[0]):.4g} to {np.degrees(angles[-1]):.4g} degrees",
            "pixel": f"{self.pixel:.6g} mm" if self.pixel else None,
            "distance": f"{self.distance:.6g} mm" if self.distance else None,
            "energy": f"{self.energy:.6g} keV" if self.energy else None})

    def __repr__(self) -> str:
        i = self._info
        return (f"<tomos.Scan {self.path!r}, {self.kind}: {' x '.join(map(str, self.shape))} "
                f"{self.dtype}, {i.flats} flats, {i.darks} darks>")


Scan.geometry = with_options(  # type: ignore[method-assign]
    Scan.geometry, GROUPS["scan"].but("rows", "columns", "views"), """The geometry: without options
    that of the file if it has one, else parallel rays at its angles.
    """, "geometry")
describe_class(Scan, GROUPS["source"].rows, """
    >>> geometry = tomos.parallel(views=4, rows=2, columns=8)
    >>> tomos.write("measured.h5", np.zeros(geometry.shape), geometry=geometry)
    >>> scan = tomos.Scan("measured.h5")
    >>> scan.views(rows=slice(0, 1)).shape, len(scan.geometry()), scan.counts
    ((4, 1, 8), 4, False)
    """)
