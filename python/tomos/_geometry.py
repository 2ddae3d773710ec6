"""Grids of voxels and lists of views."""
from __future__ import annotations

import ctypes
import math
import os
import warnings
import weakref
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from ._arrays import Numbers
from ._html import point, size, table, times
from ._library import GridStruct, check, lib, new
from ._options import GROUPS, with_options

_Numbers = Union[float, Sequence[float]]
_VIEW = 13  # doubles of a tomos_view: source (4), detector, u, v (3 each)


def grid_shape(shape: Any) -> tuple[int, int, int]:
    """(nz, ny, nx) of a shape that may be (ny, nx), or n for a square slice."""
    sizes = (shape, shape) if np.ndim(shape) == 0 else tuple(shape)
    if not 2 <= len(sizes) <= 3:
        raise ValueError(f"a grid has the shape (nz, ny, nx) or (ny, nx), not {tuple(sizes)}")
    if not all(hasattr(n, "__index__") for n in sizes):
        raise TypeError(f"the shape of a grid has whole numbers, not {shape!r}")
    whole = tuple(n.__index__() for n in sizes)
    return (1,) * (3 - len(sizes)) + whole  # type: ignore[return-value]


class Grid:
    """A grid of voxels. `shape` is that of the array: (nz, ny, nx), (ny, nx), or n for n x n.

    `voxel` is one size or (dx, dy, dz), `centre` the centre (x, y, z) of the grid. Row 0 is at the
    top: y decreases with the index.

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
    def from_steps(cls, shape: Sequence[int], first: Sequence[float],
                   step: Sequence[float]) -> "Grid":
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
        """The shape of its arrays, (nz, ny, nx)."""
        return tuple(self._struct.n)[::-1]  # type: ignore[return-value]

    @property
    def first(self) -> tuple[float, float, float]:
        """The centre of voxel (0, 0, 0), as (x, y, z)."""
        return tuple(self._struct.first)  # type: ignore[return-value]

    @property
    def step(self) -> tuple[float, float, float]:
        """The signed distances between voxels along x, y and z."""
        return tuple(self._struct.step)  # type: ignore[return-value]

    @property
    def centre(self) -> tuple[float, float, float]:
        """The centre of the grid, as (x, y, z)."""
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

    def _repr_html_(self) -> str:
        extent = [abs(s) * n for s, n in zip(self.step, self.shape[::-1])]
        return table("Grid", {
            "voxels (z, y, x)": times(self.shape), "voxel size (x, y, z)": times(map(abs, self.step)),
            "extent (x, y, z)": times(extent), "centre (x, y, z)": point(self.centre),
            "as float32": size(4 * math.prod(self.shape))})

    def plot(self, ax: Any = None, unit: str = "mm") -> Any:
        """Draws the box of the grid in 3-D with matplotlib; returns the axes."""
        from ._show3d import plot_grid
        return plot_grid(self, ax, unit)


class Geometry:
    """A scan: a list of views and the size of the detector. See `tomos.parallel`, `tomos.cone`, ...

    >>> scan = tomos.parallel(views=180, columns=256)
    >>> scan
    <tomos.Geometry parallel: 180 views over 180 degrees, 1 x 256 pixels of 1 x 1>
    >>> scan.shape
    (180, 1, 256)
    """
    __slots__ = ("_handle", "_kind", "__weakref__")

    def __init__(self, views: np.ndarray, rows: int, columns: int, kind: str = "views") -> None:
        views = np.ascontiguousarray(views, float)
        if views.ndim != 2 or views.shape[1] != _VIEW:
            raise ValueError(f"views have the shape (views, {_VIEW}), not {views.shape}")
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
        """Reads a .json or .txt file that `save` or the command wrote.

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
        """The shape of the projections, (views, rows, columns)."""
        return (lib.geometry_count(self._handle), lib.geometry_rows(self._handle),
                lib.geometry_columns(self._handle))

    @property
    def views(self) -> np.ndarray:
        """The views, (views, 13): source (4), detector centre, column step u, row step v. The last
        number of the source is 1 for a point, 0 for the direction of parallel rays, and 2 for fans
        with a source for each row, of which the middle one is given."""
        count = len(self)
        block = (ctypes.c_double * (_VIEW * count)).from_address(lib.geometry_list(self._handle))
        return np.array(block).reshape(count, _VIEW)

    @property
    def vectors(self) -> np.ndarray:
        """The views, (views, 12), as in ASTRA: ray or source, detector centre, u, v."""
        return np.delete(self.views, 3, axis=1)

    @property
    def point_source(self) -> bool:
        """Whether the rays diverge from a source; false for parallel rays."""
        return bool(self.views[0, 3])

    def grid(self, **options: Any) -> Grid:
        """The default grid: as many voxels as pixels, of the pixel size at the axis."""
        struct = GridStruct()
        check(lib.grid_for(ctypes.byref(struct), self._handle,
                           ctypes.byref(GROUPS["grid"].fill(**options))))
        return Grid._of(struct)

    def moved(self, poses: Any) -> "Geometry":
        """The views moved by poses (views, 6): source and detector together are rotated about the
        origin by a rotation vector (the last three numbers, radians), then shifted (the first
        three, the scan's unit).

        >>> scan = tomos.parallel(views=4, columns=8)
        >>> up = scan.moved(np.tile([0, 0, 2.5, 0, 0, 0], (4, 1)))
        >>> up.views[0, 4:7].tolist()
        [0.0, 0.0, 2.5]
        """
        poses = as_poses(poses, len(self))
        return Geometry._of(new(lib.geometry_move, self._handle, poses.ctypes.data), "views")

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
        return (f"<tomos.Geometry {self._kind}: {views} views{self._arc()}, {rows} x {columns} "
                f"pixels of {pixel}>")

    def _repr_html_(self) -> str:
        views, rows, columns = self.shape
        first = self.views[0]
        rays = {0: "parallel rays", 1: "point source", 2: "a fan in each row"}[int(first[3])]
        distance = np.linalg.norm(first[:3] - first[4:7]) if first[3] else None
        return table(f"Geometry: {self._kind}", {
            "views": f"{views}{self._arc()}", "detector": f"{rows} rows x {columns} columns",
            "pixel (width, height)": times(np.linalg.norm(first[i:i + 3]) for i in (7, 10)),
            "rays": rays, "source to axis": distance and f"{np.linalg.norm(first[:2]):.6g}",
            "source to detector": distance and f"{distance:.6g}",
            "projections as float32": size(4 * math.prod(self.shape))})

    def plot(self, ax: Any = None, grid: Optional[Grid] = None, views: int = 8,
             unit: str = "mm") -> Any:
        """Draws the scan in 3-D with matplotlib: path of the source with the direction of rotation,
        detectors of some views, rays of the first, rotation axis, and the grid (that of
        `grid()`). Returns the axes.

        >>> ax = tomos.cone(views=8, columns=64, rows=32, source_axis=100, source_detector=200).plot()
        >>> ax.get_zlabel()
        'z (mm)'
        """
        from ._show3d import plot_geometry
        return plot_geometry(self, ax, grid, views, unit)

    def _arc(self) -> str:
        if self._kind not in ("parallel", "fan", "cone", "laminography", "helix"):
            return ""
        u = self.views[:, 7:9]
        angles = np.unwrap(np.arctan2(u[:, 1], u[:, 0]))
        steps = np.diff(angles)
        equal = len(steps) > 0 and np.ptp(steps) < 1e-6
        arc = np.ptp(angles) + (abs(steps[0]) if equal else 0)  # as the option `arc` counts it
        return f" over {math.degrees(arc):.4g} degrees"


Geometry.grid = with_options(  # type: ignore[method-assign]
    Geometry.grid, GROUPS["grid"].rows, """The default grid: as many voxels as pixels, of the pixel
    size at the axis.

    >>> tomos.cone(views=8, columns=64, rows=32, source_axis=100, source_detector=200).grid().shape
    (32, 64, 64)
    """)

# The rows of "scan" that each kind takes, in the order of its signature.
_SOURCE = ("source_axis", "source_detector")
_ROTATION = ("arc", "start", "axis", "axis_row")
_REST = ("pixel", "pixel_height", "roll", "slant", "swivel")
_SCANS = {
    "parallel": (("angles", "views", "rows", "columns", *_ROTATION, *_REST),
                 "Parallel rays that rotate about z.", "views=180, columns=256"),
    "fan": (("angles", "views", "rows", "columns", *_SOURCE, *_ROTATION, *_REST),
            "A point source and one detector row that rotate about z; several rows: a fan in each "
            "slice.",
            "views=360, columns=256, source_axis=500, source_detector=1000"),
    "cone": (("angles", "views", "rows", "columns", *_SOURCE, *_ROTATION, *_REST),
             "A point source and a flat detector that rotate about z.",
             "views=360, rows=256, columns=256, source_axis=500, source_detector=1000"),
    "laminography": (("angles", "views", "rows", "columns", "tilt", *_ROTATION, *_REST),
                     "Parallel rays inclined to the plane perpendicular to the axis.",
                     "views=360, rows=64, columns=64, tilt=30, degrees=True"),
    "helix": (("angles", "views", "rows", "columns", *_SOURCE, "pitch", *_ROTATION, *_REST),
              "A cone beam that advances along the axis while it rotates.",
              "views=720, rows=16, columns=64, source_axis=500, source_detector=1000, pitch=8, "
              "arc=720, degrees=True"),
    "lebedev": (("views", "rows", "columns", "axis", "axis_row", *_REST),
                "Parallel rays along the directions of a Lebedev rule, which cover the sphere.",
                "views=13, rows=64, columns=64"),
}


def as_poses(poses: Any, views: int) -> np.ndarray:
    """Poses as an array (views, 6) of doubles."""
    made = np.ascontiguousarray(poses, np.float64)
    if made.shape != (views, 6):
        raise ValueError(f"the poses have shape {made.shape}; expected ({views}, 6): shifts along "
                         "x, y, z and rotations about x, y, z of each view")
    return made


def pose_change(poses: np.ndarray) -> np.ndarray:
    """Matrices (views, 6, 6): a change of a pose as a further small pose of the moved view."""
    made = np.empty((len(poses), 6, 6))
    check(lib.pose_change(poses.ctypes.data, len(poses), made.ctypes.data))
    return made


def check_radians(angles: Any, degrees: Optional[bool], name: str = "angles") -> None:
    """Rejects angles that look like degrees, unless `degrees` is given: an arc of more than two
    full turns, or a list over more than eight."""
    if angles is None or degrees is not None or np.size(angles) == 0:
        return
    most = 2 * math.pi * (_MOST_TURNS_ARC if np.ndim(angles) == 0 else _MOST_TURNS_LIST)
    covered = abs(angles) if np.ndim(angles) == 0 else np.ptp(angles)
    if covered > most * (1 + 1e-9):
        turns = covered / (2 * math.pi)
        raise ValueError(f"{name}: {covered:g} radians are {turns:.3g} turns; these look like "
                         "degrees: give degrees=True (or use np.radians), or degrees=False if they "
                         "are radians")


_MOST_TURNS_ARC, _MOST_TURNS_LIST = 2, 8


def _constructor(kind: str):
    names, summary, example = _SCANS[kind]
    rows = GROUPS["scan"].pick(names)

    if "angles" in names:
        def make(angles: Optional[Numbers] = None, *, degrees: Optional[bool] = None,
                 **options: Any) -> Geometry:
            if angles is not None and (np.ndim(angles) == 0 or isinstance(angles, str)):
                raise TypeError(f"angles={angles!r} is not a list; views={angles!r} gives the "
                                f"number of views, [{angles!r}] is a list of one angle")
            if kind != "helix":
                check_radians(angles, degrees)
                check_radians(options.get("arc"), degrees, "arc")
            struct = GROUPS["scan"].fill(degrees, geometry=kind, angles=angles, **options)
            return Geometry._of(new(lib.geometry_make, ctypes.byref(struct)), kind)
        rows.pop("angles")
    else:
        def make(*, degrees: Optional[bool] = None,  # type: ignore[misc]
                 **options: Any) -> Geometry:
            struct = GROUPS["scan"].fill(degrees, geometry=kind, **options)
            return Geometry._of(new(lib.geometry_make, ctypes.byref(struct)), kind)

    given = "`angles`, or a number of `views` over `arc`. " if "angles" in names else ""
    text = (f"{summary}\n\n{given}Angles are in radians unless `degrees` is true; lengths are in "
            "one unit.\n\n")
    return with_options(make, rows, text + f">>> scan = tomos.{kind}({example})", kind)


parallel = _constructor("parallel")
fan = _constructor("fan")
cone = _constructor("cone")
laminography = _constructor("laminography")
helix = _constructor("helix")
lebedev = _constructor("lebedev")


def vectors(vectors: np.ndarray, rows: int, columns: int, point_source: bool) -> Geometry:
    """Any list of views, (views, 12), as ASTRA's `parallel3d_vec` and `cone_vec`: direction of the
    rays or source, detector centre, column step, row step, each (x, y, z).

    Or (views, 6), as ASTRA's `parallel_vec` and `fanflat_vec`, for one detector row: ray or source,
    detector centre, column step, each (x, y).

    >>> ray, centre, u, v = (0, -1, 0), (0, 0, 0), (1, 0, 0), (0, 0, 1)
    >>> tomos.vectors([ray + centre + u + v], rows=4, columns=8, point_source=False).shape
    (1, 4, 8)
    """
    numbers = np.ascontiguousarray(vectors, float)
    if numbers.ndim != 2 or numbers.shape[1] not in (6, 12):
        raise ValueError(f"vectors have the shape (views, 12) or (views, 6), not {numbers.shape}")
    if numbers.shape[1] == 6 and rows != 1:
        raise ValueError(f"vectors of 6 numbers are for one row of pixels, not for {rows}")
    size = (rows, columns) if numbers.shape[1] == 12 else (columns,)
    make = lib.geometry_vectors if numbers.shape[1] == 12 else lib.geometry_vectors_2d
    handle = new(make, *size, bool(point_source), numbers.ctypes.data, len(numbers))
    low, high = ctypes.c_double(), ctypes.c_double()
    if lib.geometry_doubt(handle, ctypes.byref(low), ctypes.byref(high)):
        warnings.warn(f"the directions of the rays have lengths of {low.value:g} to {high.value:g} "
                      "instead of 1: if they are source positions, give point_source=True",
                      stacklevel=2)
    return Geometry._of(handle, "vectors")
