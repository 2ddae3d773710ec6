"""Phantoms with known projections, noise, and measures of the difference of arrays."""
from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Union

import numpy as np

from ._arrays import Array, any_shape, to_float32, to_host
from ._call import call
from ._geometry import Geometry, Grid, grid_shape
from ._html import table
from ._library import DifferenceStruct, EllipsoidStruct, choices, lib, new
from ._options import GROUPS, describe_class, with_options


class Ellipsoid(NamedTuple):
    """An ellipsoid that adds `value` to a phantom. `axes` are the semi-axes (inf: a cylinder),
    `euler` the z-x-z Euler angles in radians.

    >>> rod = tomos.Ellipsoid(centre=(1, 0, 0), axes=(2, 2, np.inf), value=0.02)
    """
    centre: Sequence[float] = (0.0, 0.0, 0.0)
    axes: Sequence[float] = (1.0, 1.0, 1.0)
    euler: Sequence[float] = (0.0, 0.0, 0.0)
    value: float = 1.0


class Phantom:
    """A sum of ellipsoids, with values and line integrals in closed form.

    >>> tomos.Phantom("shepp-logan")
    <tomos.Phantom 'shepp-logan' of 10 ellipsoids>
    >>> disc = tomos.Phantom([tomos.Ellipsoid(axes=(5, 5, np.inf), value=0.1)])
    >>> float(disc.project(tomos.parallel([0.0], columns=11))[0, 0, 5])
    1.0
    """
    __slots__ = ("name", "samples", "_handle", "__weakref__")

    def __init__(self, which: Union[str, Iterable[Ellipsoid]], **options: Any) -> None:
        known = which if isinstance(which, str) else None
        settings = GROUPS["phantom"].fill(facts=f"phantom={known}", **options)
        self.samples = settings.samples
        if isinstance(which, str):
            self.name = which
            self._handle = new(lib.phantom_named, which.encode(), ctypes.byref(settings))
        else:
            self.name = "ellipsoids"
            some = [EllipsoidStruct(tuple(e.centre), tuple(e.axes), tuple(e.euler), e.value)
                    for e in which]
            self._handle = new(lib.phantom_ellipsoids, (EllipsoidStruct * len(some))(*some),
                               len(some))
        weakref.finalize(self, lib.phantom_free, self._handle)

    @property
    def ellipsoids(self) -> list[Ellipsoid]:
        """The ellipsoids of the phantom."""
        count = ctypes.c_int64()
        rows = lib.phantom_list(self._handle, ctypes.byref(count))
        return [Ellipsoid(tuple(e.centre), tuple(e.axes), tuple(e.euler), e.value)
                for e in rows[:count.value]]

    def volume(self, grid: Grid) -> np.ndarray:
        """The values on a grid, (nz, ny, nx)."""
        return self._fill(lib.phantom_volume, ctypes.byref(grid._struct), grid.shape, grid)

    def project(self, geometry: Geometry) -> np.ndarray:
        """The exact projections, (views, rows, columns)."""
        return self._fill(lib.phantom_project, geometry._handle, geometry.shape, geometry)

    def _fill(self, function, where, shape, keep) -> np.ndarray:
        result = np.empty(shape, np.float32)
        view = any_shape(result, "the result")
        call(function, self._handle, where, self.samples, view.pointer, keep=(self, keep, view))
        return result

    def __repr__(self) -> str:
        return f"<tomos.Phantom {self.name!r} of {len(self.ellipsoids)} ellipsoids>"


describe_class(Phantom, GROUPS["phantom"].rows)


def _phantom(name: str, grid: Union[Grid, int, Sequence[int]], **options: Any) -> np.ndarray:
    if not isinstance(grid, Grid):
        sizes = grid_shape(grid)
        flat = np.ndim(grid) == 0 or len(grid) == 2  # type: ignore[arg-type]
        return Phantom(name, **options).volume(Grid(sizes, 2 / max(1, *sizes))).reshape(
            sizes[1:] if flat else sizes)
    if options.get("radius") is None:
        extent = [n * abs(s) for n, s in zip(grid.shape[::-1], grid.step) if n > 1]
        options["radius"] = max(extent, default=2.0) / 2
    return Phantom(name, **options).volume(grid)


phantom = with_options(_phantom, GROUPS["phantom"].rows, """The volume of a phantom that fills the
    grid.

    `grid` is a tomos.Grid, or a shape: n for a slice of n x n, (ny, nx), (nz, ny, nx). The default
    of `radius` is half the largest side of the grid.

    >>> tomos.phantom("shepp-logan-2d-modified", 128).shape
    (128, 128)
    """, "phantom")


def phantoms() -> tuple[str, ...]:
    """The names of phantoms.

    >>> "shepp-logan" in tomos.phantoms()
    True
    """
    return choices(lib.phantom_names())


def add_noise(b: Array, level: float, seed: int = 1) -> np.ndarray:
    """A copy with white Gaussian noise e of the norm ||e|| = level ||b||.

    >>> b = np.ones((10, 10))
    >>> noisy = tomos.add_noise(b, 0.05)
    >>> round(float(np.linalg.norm(noisy - b) / np.linalg.norm(b)), 4)
    0.05
    """
    return _changed(b, lib.noise_gaussian, level, seed)


def add_counts(b: Array, photons: float, seed: int = 1) -> np.ndarray:
    """A copy with photon noise, -log(n / photons), where n are Poisson counts.

    >>> noisy = tomos.add_counts(np.full((100, 100), 0.5), photons=1000)
    >>> 0.03 < float(noisy.std()) < 0.05
    True
    """
    return _changed(b, lib.noise_poisson, photons, seed)


def _changed(b: Array, function, *settings) -> np.ndarray:
    result = np.array(to_float32(b, "b"), np.float32, order="C", copy=True)
    view = any_shape(result, "b")
    call(function, view.pointer, *settings, keep=view)
    return result


class Difference(NamedTuple):
    """Measures of the difference of b from a."""
    relative_l2: float
    psnr: float
    ssim: float
    largest: float

    def _repr_html_(self) -> str:
        return table("Difference", {name: f"{value:.6g}" for name, value in self._asdict().items()})


def compare(a: Array, b: Array) -> Difference:
    """Measures of a - b; psnr and ssim are relative to the range of a, the truth.

    >>> a = tomos.phantom("shepp-logan-2d-modified", 32)
    >>> tomos.compare(a, a).relative_l2
    0.0
    """
    result = DifferenceStruct()
    one, other = any_shape(to_host(a), "a"), any_shape(to_host(b), "b")
    call(lib.compare, one.pointer, other.pointer, ctypes.byref(result), keep=(one, other, result))
    return Difference(result.relative_l2, result.psnr, result.ssim, result.largest)
