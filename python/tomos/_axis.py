"""The rotation axis of a scan, found from its data."""
from __future__ import annotations

import ctypes
import warnings
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ._arrays import Array, host_view, to_float32, to_host
from ._call import run
from ._device import DeviceArray, open_backend
from ._geometry import check_radians
from ._library import AxisStruct, lib
from ._options import GROUPS, with_options

_ROWS, _MOST = 64, 64 << 20  # rows about the middle that are looked at, and values in them
_UNSURE = 0.05               # confidence below which `recon` warns of what it found


class Axis(float):
    """The column the axis falls on, a number like any other, and what is known of it.

    >>> theta = np.linspace(0, np.pi, 90, endpoint=False)
    >>> blob = tomos.Phantom([tomos.Ellipsoid((9, 5, 0), (12, 8, np.inf), value=0.02)])
    >>> axis = tomos.find_center(blob.project(tomos.parallel(theta, columns=64, axis=33.2)), theta)
    >>> abs(axis - 33.2) < 0.1, axis.full_turn, axis.at_edge
    (True, False, False)
    """
    confidence: float  #: 0: could be anywhere, 1: nowhere else; of one method and range
    error: float       #: standard error in columns; nan: there was one answer only
    at_edge: bool      #: best at the end of the range: it may lie beyond
    full_turn: bool    #: the views go all around
    half: bool         #: half acquisition: nearer to one edge than a quarter
    range: tuple[float, float]      #: where it was looked for
    answers: dict[str, float]       #: what each way found

    @classmethod
    def _of(cls, found: AxisStruct) -> "Axis":
        axis = cls(found.column)
        axis.confidence, axis.range = found.confidence, (found.low, found.high)
        axis.error = found.error
        axis.at_edge, axis.full_turn, axis.half = map(bool, (found.at_edge, found.full_turn, found.half))
        ways = {way: getattr(found, way) for way in ("pairs", "vo", "sharpness")}
        axis.answers = {way: column for way, column in ways.items() if column == column}
        return axis

    __str__ = float.__repr__

    def __repr__(self) -> str:
        if not hasattr(self, "confidence"):  # from a pickle or a cast: the number alone
            return float.__repr__(self)
        ways = ", ".join(f"{way} {column:.2f}" for way, column in self.answers.items())
        edge = ", at the edge of its range" if self.at_edge else ""
        return f"<tomos.Axis {float(self):.3f}, confidence {self.confidence:.2f}{edge} ({ways})>"


def _some_rows(tomo: Any, ind: Optional[int]) -> np.ndarray:
    """The rows to look at, in the host's memory, (views, rows, columns)."""
    if isinstance(tomo, DeviceArray):
        tomo = tomo.to_host()
    if tomo.ndim == 2:
        return to_float32(to_host(tomo), "tomo")[:, None, :]
    views, rows, columns = tomo.shape
    if ind is not None and not -rows <= ind < rows:
        raise ValueError(f"ind={ind} is not one of the {rows} rows of tomo {tuple(tomo.shape)}")
    count = min(rows, _ROWS, _MOST // max(views * columns, 1) + 1) if ind is None else 1
    first = (rows - count) // 2 if ind is None else ind % rows
    return to_float32(to_host(tomo[:, first:first + count]), "tomo")


def _range_about(init: float, columns: int) -> tuple[float, float]:
    if not 0 <= init <= columns - 1:
        raise ValueError(f"init={init:g} is not within columns 0 to {columns - 1}")
    reach = max(8.0, 0.1 * columns)
    return max(init - reach, 0.0), min(init + reach, columns - 1.0)


def views_first(tomo: Any, sinogram_order: bool) -> Any:
    """(views, rows, columns), or (views, columns)."""
    tomo = tomo if hasattr(tomo, "shape") else np.asarray(tomo)
    if not 2 <= tomo.ndim <= 3:
        raise ValueError(f"tomo has {tomo.ndim} axes; it needs 3, or 2 for one sinogram")
    return tomo.swapaxes(0, 1) if sinogram_order and tomo.ndim == 3 else tomo


def one_per_view(theta: Any, tomo: Any) -> np.ndarray:
    """The angles, as many as there are views."""
    theta = np.asarray(theta, float)
    if theta.shape != (tomo.shape[0],):
        swapped = tomo.ndim == 3 and theta.shape == (tomo.shape[1],)
        hint = "; sinogram_order says which axis comes first" if swapped else ""
        raise ValueError(f"theta has shape {theta.shape} for {tomo.shape[0]} views of tomo "
                         f"{tuple(tomo.shape)}{hint}")
    return theta


def _find_center(tomo: Array, theta: Sequence[float], ind: Optional[int] = None,
                 init: Optional[float] = None, sinogram_order: bool = False, *, degrees: Optional[bool] = None,
                 backend: str = "auto", progress: bool = False, **options: Any) -> Axis:
    tomo = views_first(tomo, sinogram_order)
    angles = one_per_view(theta, tomo)
    check_radians(angles, degrees, "theta")
    if init is not None:
        if options.get("axis_range") is not None:
            raise TypeError("init and axis_range both say where to look; give one or the other")
        options["axis_range"] = _range_about(float(init), tomo.shape[-1])
    angles = np.radians(angles) if degrees else np.ascontiguousarray(angles)
    view = host_view(_some_rows(tomo, ind))
    settings, found = GROUPS["axis"].fill(**options), AxisStruct()
    run(lib.axis_find, ctypes.byref(found), open_backend(backend), view.pointer, angles.ctypes.data,
        ctypes.byref(settings), show=progress, keep=(found, view, angles, settings))
    return Axis._of(found)


find_center = with_options(_find_center, GROUPS["axis"].rows, """The column the rotation axis falls on,
    counted from the middle of the first pixel; parallel rays.

    `tomo` has line integrals (after -log), (views, rows, columns), or (rows, views, columns) with
    `sinogram_order`; or one sinogram, (views, columns). `theta` has the angle of each view. `ind` is the
    row to look at; without it, those about the middle are. `init` is a guess: the axis is then looked for
    within a tenth of the columns, and 8 at least, about it.

    The result is a float that also has `confidence` (0: could be anywhere, 1: nowhere else), `at_edge`
    and what each way found: see `tomos.Axis`.

    >>> theta = np.linspace(0, np.pi, 90, endpoint=False)
    >>> blob = tomos.Phantom([tomos.Ellipsoid((9, 5, 0), (12, 8, np.inf), value=0.02)])
    >>> tomo = blob.project(tomos.parallel(theta, rows=4, columns=64, axis=33.2))
    >>> center = tomos.find_center(tomo, theta)
    >>> abs(center - 33.2) < 0.1
    True
    >>> rec = tomos.recon(tomo, theta, center=center)
    """, "find_center")


def found_for_recon(tomo: Any, theta: np.ndarray, degrees: Optional[bool], backend: str) -> Axis:
    """The axis of a scan whose axis nobody said; a warning where it is not sure."""
    try:
        axis = _find_center(tomo, theta, degrees=degrees, backend=backend)
    except ValueError as failure:
        raise type(failure)(f"recon does not find the axis, as {failure}; say where it is: "
                            f"center={(tomo.shape[-1] - 1) / 2:g} is the middle") from None
    if axis.confidence < _UNSURE or axis.at_edge:
        warnings.warn(f"the axis is not sure: {axis!r}; look at slices with center= about it",
                      stacklevel=4)
    return axis
