"""Search for the rotation axis of a scan."""
from __future__ import annotations

import ctypes
import warnings
from typing import Any, Optional

import numpy as np

from ._arrays import Array, Numbers, host_view, to_float32, to_host
from ._call import run
from ._device import DeviceArray, open_backend
from ._geometry import check_radians
from ._html import table
from ._library import AxisStruct, lib
from ._options import GROUPS, with_options

_ROWS, _MOST = 64, 64 << 20  # most rows used, around the middle, and values in them


class Axis(float):
    """The column of the rotation axis, a float, with the quality of the estimate.

    >>> theta = np.linspace(0, np.pi, 90, endpoint=False)
    >>> blob = tomos.Phantom([tomos.Ellipsoid((9, 5, 0), (12, 8, np.inf), value=0.02)])
    >>> axis = tomos.find_center(blob.project(tomos.parallel(theta, columns=64, axis=33.2)), theta)
    >>> abs(axis - 33.2) < 0.1, axis.full_turn, axis.at_edge
    (True, False, False)
    """
    certain: bool      #: False: compare slices with the axis near it, as a warning of `recon` says
    confidence: float  #: 0: undetermined, 1: certain; compare within one method and range
    error: float       #: standard error in columns; nan if there is only one estimate
    at_edge: bool      #: best at the end of the range, or found outside it
    full_turn: bool    #: the views cover 360 degrees
    half: bool         #: half acquisition: the axis is in the outer quarter of the detector
    range: tuple[float, float]      #: columns that were searched
    answers: dict[str, float]       #: the estimate of each method

    @classmethod
    def _of(cls, found: AxisStruct) -> "Axis":
        axis = cls(found.column)
        axis.confidence, axis.range = found.confidence, (found.low, found.high)
        axis.error = found.error
        axis.certain = not lib.axis_doubt(found, *[ctypes.byref(ctypes.c_double())] * 3)
        axis.at_edge, axis.full_turn, axis.half = map(
            bool, (found.at_edge, found.full_turn, found.half))
        ways = {way: getattr(found, way) for way in ("pairs", "vo", "sharpness")}
        axis.answers = {way: column for way, column in ways.items() if column == column}
        return axis

    __str__ = float.__repr__

    def __repr__(self) -> str:
        if not hasattr(self, "confidence"):  # a copy or a pickle has the number only
            return float.__repr__(self)
        ways = ", ".join(f"{way} {column:.2f}" for way, column in self.answers.items())
        edge = ", perhaps outside its range" if self.at_edge else ""
        error = f", standard error {self.error:.2g}" if self.error == self.error else ""
        return f"<tomos.Axis {float(self):.3f}{error}, {self._judgement()}{edge} ({ways})>"

    def _judgement(self) -> str:
        return f"{'certain' if self.certain else 'uncertain'} (confidence {self.confidence:.2f})"

    def _repr_html_(self) -> str:
        if not hasattr(self, "confidence"):
            return table("Axis", {"column": f"{float(self):.3f}"})
        return table("Axis", {
            "column": f"{float(self):.3f}", "estimate": self._judgement(),
            "standard error": f"{self.error:.2g}" if self.error == self.error else None,
            "searched": f"{self.range[0]:g} to {self.range[1]:g}"
                        + (", perhaps outside" if self.at_edge else ""),
            **{f"by {way}": f"{column:.3f}" for way, column in self.answers.items()}})


def _some_rows(tomo: Any, ind: Optional[int]) -> np.ndarray:
    """The rows to search in, on the host, (views, rows, columns)."""
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


def _find_center(tomo: Array, theta: Numbers, ind: Optional[int] = None,
                 init: Optional[float] = None, sinogram_order: bool = False, *,
                 degrees: Optional[bool] = None, backend: str = "auto", progress: bool = False,
                 **options: Any) -> Axis:
    tomo = views_first(tomo, sinogram_order)
    angles = one_per_view(theta, tomo)
    check_radians(angles, degrees, "theta")
    if init is not None:
        if options.get("axis_range") is not None:
            raise TypeError("init and axis_range both give the range; use one or the other")
        options["axis_range"] = _range_about(float(init), tomo.shape[-1])
    angles = np.radians(angles) if degrees else np.ascontiguousarray(angles)
    view = host_view(_some_rows(tomo, ind))
    settings, found = GROUPS["axis"].fill(**options), AxisStruct()
    run(lib.axis_find, ctypes.byref(found), open_backend(backend), view.pointer, angles.ctypes.data,
        ctypes.byref(settings), show=progress, keep=(found, view, angles, settings))
    return Axis._of(found)


find_center = with_options(_find_center, GROUPS["axis"].but("unknown"), """Finds the column
    of the rotation axis of a scan with parallel rays, counted from the centre of the first pixel.

    `tomo` has line integrals (after -log), (views, rows, columns), or (rows, views, columns) with
    `sinogram_order`; or one sinogram, (views, columns). `theta` has the angle of each view. `ind`
    is the row to use; the default are the rows around the middle. `init` is an estimate: the search
    is then limited to a tenth of the columns, and at least 8, on either side.

    The result is a float with more attributes: `confidence` (0: undetermined, 1: certain),
    `at_edge` and the estimate of each method, see `tomos.Axis`.

    >>> theta = np.linspace(0, np.pi, 90, endpoint=False)
    >>> blob = tomos.Phantom([tomos.Ellipsoid((9, 5, 0), (12, 8, np.inf), value=0.02)])
    >>> tomo = blob.project(tomos.parallel(theta, rows=4, columns=64, axis=33.2))
    >>> center = tomos.find_center(tomo, theta)
    >>> abs(center - 33.2) < 0.1
    True
    >>> rec = tomos.recon(tomo, theta, center=center)
    """, "find_center")


def found_for_recon(tomo: Any, theta: np.ndarray, degrees: Optional[bool], backend: str) -> Axis:
    """The axis of a scan where none was given, with a warning if it is uncertain."""
    try:
        axis = _find_center(tomo, theta, degrees=degrees, backend=backend)
    except ValueError as failure:
        raise type(failure)(f"recon cannot find the axis: {failure}; give it as center="
                            f"{(tomo.shape[-1] - 1) / 2:g} if it is in the middle") from None
    if not axis.certain:
        warnings.warn(f"the axis is uncertain: {axis!r}; compare slices with center= near it",
                      stacklevel=4)
    return axis
