"""Grids of voxels and lists of views."""
from __future__ import annotations

import ctypes
import math
import os
import weakref
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from ._library import GridStruct, check, lib, new
from ._options import GROUPS, with_options

_Numbers = Union[float, Sequence[float]]
_VIEW = 13  # numbers of a tomos_view: source (4), detector, u, v


def grid_shape(shape: Any) -> tuple[int, int, int]:
    """(nz, ny, nx) from that, (ny, nx), or n for a square slice."""
    sizes = (shape, shape) if np.ndim(shape) == 0 else tuple(shape)
    if not 2 <= len(sizes) <= 3:
        raise ValueError(f"a grid has the shape (nz, ny, nx) or (ny, nx), not {tuple(sizes)}")
    if not all(hasattr(n, "__index__") for n in sizes):
        raise TypeError(f"the shape of a grid has whole numbers, not {shape!r}")
    return (1,) * (3 - len(sizes)) + tuple(n.__index__() for n in sizes)  # type: ignore[return-value]


class Grid:
    """Where the voxels are: `shape` as of the array, (nz, ny, nx) or (ny, nx), or n for a square slice.

    `voxel` is one size or (dx, dy, dz), `centre` the world point (x, y, z) in the middle. Row 0 is on
    top: y grows upwards, its index downwards.

    >>> tomos.Grid((64, 128, 128), voxel=0.5)
    <tomos.Grid 64 x 128 x 128 (z, y, x), voxels of 0.5 x 0.5 x 0.5, centred on (0, 0, 0)>
    """
    __slots__ = ("_struct",)

    def __init__(self, shape: Union[int, Sequence[int]], voxel: _Numbers = 1.0,
                 centre: Sequence[float] = (0.0, 0.0, 0.0)) -> None:
        nz, ny, nx = grid_shape(shape)
        d = np.broadcast_to(np.asarray(voxel, float), 3)
        c = np.asarray(centre, float)
        if c.shape != (3,):
            raise ValueError(f"the centre of a grid is (x, y, z), not {centre!r}")
        step = (d[0], -d[1], d[2])
        first = [c[i] - step[i] * (n - 1) / 2 for i, n in enumerate((nx, ny, nz))]
        self._struct = GridStruct((nx, ny, nz), tuple(first), tuple(step))
        check(lib.grid_check(ctypes.byref(self._struct)))

    @classmethod
    def from_steps(cls, shape: Sequence[int], first: Sequence[float], step: Sequence[float]) -> "Grid":
        """A grid from the centre of voxel (0, 0, 0) and signed steps, both (x, y, z).

        >>> tomos.Grid.from_steps((1, 2, 2), (0, 0, 0), (1, 1, 1)).centre
        (0.5, 0.5, 0.0)
        """
        nz, ny, nx = shape
        return cls._of(GridStruct((nx, ny, nz), tuple(first), tuple(step)))

    @classmethod
    def _of(cls, struct: GridStruct) -> "Grid":
        check(lib.grid_check(ctypes.byref(struct)))
        grid = cls.__new__(cls)
        grid._struct = struct
        return grid

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the arrays on it: (nz, ny, nx)."""
        return tuple(self._struct.n)[::-1]  # type: ignore[return-value]

    @property
    def first(self) -> tuple[float, float, float]:
        """The centre of voxel (0, 0, 0), as (x, y, z)."""
        return tuple(self._struct.first)  # type: ignore[return-value]

    @property
    def step(self) -> tuple[float, float, float]:
        """From one voxel to the next, along x, y and z, signed."""
        return tuple(self._struct.step)  # type: ignore[return-value]

    @property
    def centre(self) -> tuple[float, float, float]:
        """The middle of the grid, as (x, y, z)."""
        s = self._struct
        return tuple(s.first[i] + s.step[i] * (s.n[i] - 1) / 2 for i in range(3))  # type: ignore

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and bytes(self._struct) == bytes(other._struct)

    def __hash__(self) -> int:
        return hash(bytes(self._struct))

    def __reduce__(self) -> tuple:
        return Grid.from_steps, (self.shape, self.first, self.step)

    def __repr__(self) -> str:
        size = " x ".join(f"{abs(s):g}" for s in self.step)
        centre = ", ".join(f"{c:g}" for c in self.centre)
        return (f"<tomos.Grid {' x '.join(map(str, self.shape))} (z, y, x), voxels of {size}, "
                f"centred on ({centre})>")


class Geometry:
    """A scan: a list of views and the detector's size. `tomos.parallel`, `tomos.cone` and others make it.

    >>> scan = tomos.parallel(views=180, columns=256)
    >>> scan
    <tomos.Geometry parallel: 180 views over 179 degrees, 1 x 256 pixels of 1 x 1>
    >>> scan.shape
    (180, 1, 256)
    """
    __slots__ = ("_handle", "_kind", "__weakref__")

    def __init__(self, views: np.ndarray, rows: int, columns: int, kind: str = "views") -> None:
        views = np.ascontiguousarray(views, float)
        if views.ndim != 2 or views.shape[1] != _VIEW:
            raise ValueError(f"views are rows of {_VIEW} numbers, not of shape {views.shape}")
        self._take(new(lib.geometry_views, rows, columns, views.ctypes.data, len(views)), kind)

    def _take(self, handle: int, kind: str) -> None:
        self._handle, self._kind = handle, kind
        weakref.finalize(self, lib.geometry_free, handle)

    @classmethod
    def _of(cls, handle: int, kind: str) -> "Geometry":
        geometry = cls.__new__(cls)
        geometry._take(handle, kind)
        return geometry

    @classmethod
    def load(cls, path: Union[str, os.PathLike]) -> "Geometry":
        """From a .json or .txt file that `save` or the command wrote.

        >>> tomos.parallel(views=8, columns=4).save("scan.json")
        >>> len(tomos.Geometry.load("scan.json"))
        8
        """
        return cls._of(new(lib.geometry_read, os.fsencode(path), 0, 0, -1), "views")

    def save(self, path: Union[str, os.PathLike], overwrite: bool = False) -> None:
        """Writes the list of views, as .json or .txt."""
        options = GROUPS["file"].fill(overwrite=overwrite)
        check(lib.geometry_write(self._handle, os.fsencode(path), ctypes.byref(options)))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the projections: (views, rows, columns)."""
        return (lib.geometry_count(self._handle), lib.geometry_rows(self._handle),
                lib.geometry_columns(self._handle))

    @property
    def views(self) -> np.ndarray:
        """A copy of the list: source (4: the last 1 for a point, 0 for a direction, 2 for the middle one of
        the sources of fans, one for each row), detector, u, v."""
        count = len(self)
        block = (ctypes.c_double * (_VIEW * count)).from_address(lib.geometry_list(self._handle))
        return np.array(block).reshape(count, _VIEW)

    @property
    def vectors(self) -> np.ndarray:
        """The same in ASTRA's order, 12 numbers to a view: ray or source, detector, u, v."""
        return np.delete(self.views, 3, axis=1)

    @property
    def point_source(self) -> bool:
        """Whether the rays come from a point, or one for each row, rather than side by side."""
        return bool(self.views[0, 3])

    def grid(self, **options: Any) -> Grid:
        """The grid the scan suggests: as many voxels as pixels, of the pixel's size at the axis."""
        struct = GridStruct()
        check(lib.grid_for(ctypes.byref(struct), self._handle,
                           ctypes.byref(GROUPS["grid"].fill(**options))))
        return Grid._of(struct)

    def __len__(self) -> int:
        return lib.geometry_count(self._handle)

    def __getitem__(self, which: Any) -> "Geometry":
        """Some of the views.

        >>> tomos.parallel(views=180, columns=4)[::10].shape
        (18, 1, 4)
        """
        chosen = np.atleast_2d(self.views[which])
        return Geometry(chosen, *self.shape[1:], self._kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Geometry) and self.shape == other.shape and bool(
            np.array_equal(self.views, other.views))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple:
        return Geometry, (self.views, *self.shape[1:], self._kind)

    def __repr__(self) -> str:
        views, rows, columns = self.shape
        first = self.views[0]
        pixel = f"{np.linalg.norm(first[7:10]):g} x {np.linalg.norm(first[10:13]):g}"
        return (f"<tomos.Geometry {self._kind}: {views} views{self._arc()}, {rows} x {columns} pixels "
                f"of {pixel}>")

    def _arc(self) -> str:
        if self._kind not in ("parallel", "fan", "cone", "laminography", "helix"):
            return ""
        u = self.views[:, 7:9]
        turned = np.unwrap(np.arctan2(u[:, 1], u[:, 0]))
        return f" over {math.degrees(np.ptp(turned)):.4g} degrees"


Geometry.grid = with_options(  # type: ignore[method-assign]
    Geometry.grid, GROUPS["grid"].rows, """The grid the scan suggests: as many voxels as pixels, of the
    pixel's size at the axis.

    >>> tomos.cone(views=8, columns=64, rows=32, source_axis=100, source_detector=200).grid().shape
    (32, 64, 64)
    """)

# What each kind has of the rows of "scan", the ones that come first in calls first.
_SOURCE = ("source_axis", "source_detector")
_TURNS = ("arc", "start", "axis", "axis_row")
_REST = ("pixel", "pixel_height", "roll", "slant", "swivel")
_SCANS = {
    "parallel": (("angles", "views", "rows", "columns", *_TURNS, *_REST),
                 "Parallel rays turning about z.", "views=180, columns=256"),
    "fan": (("angles", "views", "rows", "columns", *_SOURCE, *_TURNS, *_REST),
            "A point source and one row of pixels turning about z; several rows: a fan in each slice.",
            "views=360, columns=256, source_axis=500, source_detector=1000"),
    "cone": (("angles", "views", "rows", "columns", *_SOURCE, *_TURNS, *_REST),
             "A point source and a flat detector turning about z.",
             "views=360, rows=256, columns=256, source_axis=500, source_detector=1000"),
    "laminography": (("angles", "views", "rows", "columns", "tilt", *_TURNS, *_REST),
                     "Parallel rays inclined to the plane across the axis.",
                     "views=360, rows=64, columns=64, tilt=30, degrees=True"),
    "helix": (("angles", "views", "rows", "columns", *_SOURCE, "pitch", *_TURNS, *_REST),
              "A cone beam that advances along the axis while it turns.",
              "views=720, rows=16, columns=64, source_axis=500, source_detector=1000, pitch=8, "
              "arc=720, degrees=True"),
    "lebedev": (("views", "rows", "columns", "axis", "axis_row", *_REST),
                "Parallel rays along the directions of a Lebedev rule, all over the sphere.",
                "views=13, rows=64, columns=64"),
}


def check_radians(angles: Any, degrees: Optional[bool], name: str = "angles") -> None:
    """Rejects what looks like degrees where nobody said that it is or is not: more than two turns."""
    if angles is None or degrees is not None or np.size(angles) == 0:
        return
    most = 4 * math.pi if np.ndim(angles) == 0 else _MOST_TURNS * 2 * math.pi
    covered = abs(angles) if np.ndim(angles) == 0 else np.ptp(angles)
    if covered > most * (1 + 1e-9):
        raise ValueError(f"{name}: {covered:g} radians are {covered / (2 * math.pi):.3g} turns; these look "
                         "like degrees: say degrees=True (or use np.radians), or degrees=False if they "
                         "are radians")


_MOST_TURNS = 8  # of a list of angles, before it is taken for degrees


def _constructor(kind: str):
    names, summary, example = _SCANS[kind]
    rows = GROUPS["scan"].pick(names)

    if "angles" in names:
        def make(angles: Optional[Sequence[float]] = None, *, degrees: Optional[bool] = None,
                 **options: Any) -> Geometry:
            if angles is not None and (np.ndim(angles) == 0 or isinstance(angles, str)):
                raise TypeError(f"angles={angles!r} is not a list; views={angles!r} makes so many of them, "
                                f"[{angles!r}] is one")
            if kind != "helix":
                check_radians(angles, degrees)
                check_radians(options.get("arc"), degrees, "arc")
            struct = GROUPS["scan"].fill(degrees, geometry=kind, angles=angles, **options)
            return Geometry._of(new(lib.geometry_make, ctypes.byref(struct)), kind)
        rows.pop("angles")
    else:
        def make(*, degrees: Optional[bool] = None, **options: Any) -> Geometry:  # type: ignore[misc]
            struct = GROUPS["scan"].fill(degrees, geometry=kind, **options)
            return Geometry._of(new(lib.geometry_make, ctypes.byref(struct)), kind)

    given = "`angles`, or `views` of them over `arc`; " if "angles" in names else ""
    text = f"{summary}\n\n{given}in radians unless `degrees` is true. Lengths in one unit.\n\n"
    return with_options(make, rows, text + f">>> scan = tomos.{kind}({example})", kind)


parallel = _constructor("parallel")
fan = _constructor("fan")
cone = _constructor("cone")
laminography = _constructor("laminography")
helix = _constructor("helix")
lebedev = _constructor("lebedev")


def vectors(vectors: np.ndarray, rows: int, columns: int, point_source: bool) -> Geometry:
    """Free views, as ASTRA's `parallel3d_vec` and `cone_vec` have them: 12 numbers to a view.

    The ray's direction or the source, the detector's centre, one column step, one row step. Or 6 numbers,
    as of ASTRA's `parallel_vec` and `fanflat_vec`, for one row of pixels: ray or source, detector's
    centre, column step, each (x, y).

    >>> ray, centre, u, v = (0, -1, 0), (0, 0, 0), (1, 0, 0), (0, 0, 1)
    >>> tomos.vectors([ray + centre + u + v], rows=4, columns=8, point_source=False).shape
    (1, 4, 8)
    """
    numbers = np.ascontiguousarray(vectors, float)
    if numbers.ndim != 2 or numbers.shape[1] not in (6, 12):
        raise ValueError(f"vectors are rows of 12 numbers, or of 6, not of shape {numbers.shape}")
    if numbers.shape[1] == 6:
        if rows != 1:
            raise ValueError(f"vectors of 6 numbers are for one row of pixels, not for {rows}")
        return Geometry._of(new(lib.geometry_vectors_2d, columns, bool(point_source), numbers.ctypes.data,
                                len(numbers)), "vectors")
    handle = new(lib.geometry_vectors, rows, columns, bool(point_source), numbers.ctypes.data,
                 len(numbers))
    return Geometry._of(handle, "vectors")
