"""Pictures of volumes, projections, geometries and iterations, with matplotlib where installed.

matplotlib and ipywidgets are imported at their first use: the package does without them.
"""
from __future__ import annotations

import os
from typing import Any, Optional, Union

import numpy as np

from ._arrays import Array, to_float32, to_host
from ._call import call
from ._files import _CONTENTS, _open, info
from ._geometry import Grid
from ._library import Shape, lib

_AXES = {"volume": ("z", "y", "x"), "projections": ("view", "row", "column")}


def need(module: str, what: str) -> Any:
    """Imports a module that the package does without, or says how to install it."""
    from importlib import import_module
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise ImportError(f"{what} needs {name}, which is not installed: "
                          f"python -m pip install {name}") from error


# ---- planes of arrays and of files ---------------------------------------------------------------

class _Source:
    """Planes of an array in memory or in a file."""

    def __init__(self, data: Any, grid: Optional[Grid], content: Optional[str]) -> None:
        self.path = data if isinstance(data, (str, os.PathLike)) else None
        found = info(self.path) if self.path is not None else None
        self.unit, self.value_unit = (found.unit, found.value_unit) if found else ("mm", "")
        if found is not None:
            self.array, self.shape = None, found.shape
            grid = grid or found.grid
            content = content or (found.content if found.content in _CONTENTS[:2] else None)
        else:
            self.array = to_float32(to_host(data), "data")
            if self.array.ndim == 2:
                self.array = self.array[None]
            if self.array.ndim != 3:
                raise ValueError(f"a volume has three axes, or two for a slice, not the shape "
                                 f"{self.array.shape}")
            self.shape = self.array.shape
        self.content = content or "volume"
        if self.content not in _AXES:
            raise ValueError(f"content {content!r} is not known; it is volume or projections")
        self.grid = grid if self.content == "volume" else None
        if self.grid is not None and self.grid.shape != tuple(self.shape):
            raise ValueError(f"the grid has the shape {self.grid.shape}, the volume "
                             f"{tuple(self.shape)}")

    def middle(self, at: Any) -> tuple[int, ...]:
        """The indices (z, y, x) of the planes; by default those in the middle."""
        chosen = tuple(at) if at is not None else (None,) * 3
        if len(chosen) != 3:
            raise ValueError(f"at has three indices, {', '.join(_AXES[self.content])}; not {at!r}")
        found = tuple(n // 2 if i is None else int(i) for i, n in zip(chosen, self.shape))
        for name, i, n in zip(_AXES[self.content], found, self.shape):
            if not -n <= i < n:
                raise IndexError(f"at: {name} is {i}; there are {n}")
        return tuple(i % n for i, n in zip(found, self.shape))

    def plane(self, axis: int, index: int) -> np.ndarray:
        """The plane across an axis, the other two in their order."""
        if self.array is not None:
            return np.take(self.array, index, axis)
        first, count = [0, 0, 0], list(self.shape)
        first[axis], count[axis] = index, 1
        data = np.empty(count, np.float32)
        with _open(self.path, "") as file:  # type: ignore[arg-type]
            call(lib.file_read_box, file, Shape(*first), Shape(*count), Shape(1, 1, 1),
                 data.ctypes.data, keep=data, wait=True)
        return data.squeeze(axis)

    def edges(self, axis: int) -> tuple[float, float]:
        """Where the first and the last place along an axis end: lengths, or indices."""
        n = self.shape[axis]
        first, step = (0.0, 1.0) if self.grid is None else (
            self.grid.first[2 - axis], self.grid.step[2 - axis])
        return first - step / 2, first + (n - 0.5) * step

    def place(self, axis: int, index: int) -> str:
        name = _AXES[self.content][axis]
        if self.grid is None:
            return f"{name} {index}"
        return f"{name} = {self.grid.first[2 - axis] + index * self.grid.step[2 - axis]:.4g}"


def _window(planes: list[np.ndarray], window: Any) -> tuple[float, float]:
    """The range of grey values: without the most extreme 0.1 %."""
    if window is not None:
        low, high = map(float, window)
        if not low < high:
            raise ValueError(f"window is {low:g}, {high:g}; the first must be below the second")
        return low, high
    values = np.concatenate([p[np.isfinite(p)].ravel()[::max(1, p.size >> 20)] for p in planes])
    if values.size == 0:
        return 0.0, 1.0
    low, high = np.quantile(values, (0.001, 0.999))
    return (float(low), float(high)) if low < high else (float(low) - 0.5, float(low) + 0.5)


# Which axis a picture has across and which up, for the plane across each axis of the array.
_SIDES = {0: (2, 1), 1: (2, 0), 2: (1, 0)}


def _draw(ax: Any, source: _Source, axis: int, index: int, image: np.ndarray, unit: str,
          window: tuple[float, float]) -> Any:
    """One plane. Lengths grow to the right and upwards, as do z and the rows of the detector;
    indices of slices grow downwards, as matrices are printed, and views likewise."""
    across, up = _SIDES[axis]
    volume = source.content == "volume"
    left, right = source.edges(across)
    top, bottom = source.edges(up)  # of the first and of the last row
    drawn = ax.imshow(image, cmap="gray", vmin=window[0], vmax=window[1],
                      extent=(left, right, bottom, top), interpolation="nearest",
                      aspect="equal" if volume or axis == 0 else "auto")
    upwards = axis != 0 or source.grid is not None if volume else axis == 0
    if upwards and bottom > top:
        ax.invert_yaxis()
    if left > right:
        ax.invert_xaxis()
    names = _AXES[source.content]
    suffix = f" ({unit})" if source.grid is not None and unit else ""
    ax.set_xlabel(names[across] + suffix)
    ax.set_ylabel(names[up] + suffix)
    kind = "" if volume else ("projection, ", "sinogram, ", "views, ")[axis]
    ax.set_title(kind + source.place(axis, index))
    return drawn


def _shown(source: _Source) -> list[int]:
    """The planes that are more than a line."""
    if source.shape[0] == 1:
        return [0]
    if source.content == "projections" and source.shape[1] == 1:
        return [1]
    return [0, 1, 2]


def show(data: Union[Array, str, os.PathLike], grid: Optional[Grid] = None, *,
         content: Optional[str] = None, at: Any = None, window: Any = None,
         unit: Optional[str] = None, value: Optional[str] = None) -> np.ndarray:
    """Draws three planes of a volume, or a projection and two sinograms, with a bar of values.

    `data` is an array or the name of a file, of which only the planes are read. With a grid, that of
    the file or `grid`, the sides are lengths. `at` are the indices (z, y, x) of the planes or (view,
    row, column), by default the middle; `window` the values that are black and white; `content`
    "volume" or "projections", by default that of the file, else a volume; `unit` and `value` the
    labels of lengths and values, by default the units of the file, and mm and nothing for an array. Returns the axes of matplotlib,
    which must be installed.

    >>> axes = tomos.show(tomos.phantom("shepp-logan", tomos.Grid((8, 16, 16))), at=(3, 8, 8))
    >>> [ax.get_title() for ax in axes]
    ['z 3', 'y 8', 'x 8']
    """
    pyplot = need("matplotlib.pyplot", "tomos.show")
    source = _Source(data, grid, content)
    chosen = source.middle(at)
    shown = _shown(source)
    unit = source.unit if unit is None else unit
    planes = [source.plane(axis, chosen[axis]) for axis in shown]
    limits = _window(planes, window)
    figure, axes = pyplot.subplots(1, len(shown), figsize=(4.2 * len(shown) + 0.8, 4),
                                   squeeze=False, layout="constrained")
    for ax, axis, image in zip(axes[0], shown, planes):
        drawn = _draw(ax, source, axis, chosen[axis], image, unit, limits)
    figure.colorbar(drawn, ax=list(axes[0]), shrink=0.85,
                    label=source.value_unit if value is None else value)
    return axes[0]


def browse(data: Union[Array, str, os.PathLike], grid: Optional[Grid] = None, *,
           content: Optional[str] = None, unit: Optional[str] = None) -> Any:
    """A slice browser for notebooks: plane, index and window by sliders. Needs matplotlib and
    ipywidgets; arguments as of `tomos.show`.

    >>> tomos.browse(np.zeros((4, 8, 8)))  # doctest: +SKIP
    """
    widgets = need("ipywidgets", "tomos.browse")
    pyplot = need("matplotlib.pyplot", "tomos.browse")
    source = _Source(data, grid, content)
    length = source.unit if unit is None else unit
    names = _AXES[source.content]
    low, high = _window([source.plane(0, source.shape[0] // 2)], None)
    across = widgets.ToggleButtons(options=[(f"across {n}", i) for i, n in enumerate(names)])
    index = widgets.IntSlider(source.shape[0] // 2, 0, source.shape[0] - 1, description="index")
    margin = 0.5 * (high - low)
    span = widgets.FloatRangeSlider(value=(low, high), min=low - margin, max=high + margin,
                                    step=(high - low) / 200, description="window",
                                    readout_format=".3g")

    def other_axis(_change: Any) -> None:
        last = source.shape[across.value] - 1
        index.max = last
        index.value = (last + 1) // 2

    def draw(across: int, index: int, window: tuple[float, float]) -> None:
        index = min(index, source.shape[across] - 1)
        _, ax = pyplot.subplots(figsize=(6, 5), layout="constrained")
        drawn = _draw(ax, source, across, index, source.plane(across, index), length, window)
        ax.figure.colorbar(drawn, ax=ax)
        pyplot.show()

    across.observe(other_axis, "value")
    picture = widgets.interactive_output(
        draw, {"across": across, "index": index, "window": span})
    return widgets.VBox([across, widgets.HBox([index, span]), picture])


# ---- curves --------------------------------------------------------------------------------------

def plot_history(history: Any, ax: Any = None) -> Any:
    """The curves of `History.plot`."""
    pyplot = need("matplotlib.pyplot", "History.plot")
    ax = ax or pyplot.subplots(layout="constrained")[1]
    steps = np.arange(1, len(history.residual) + 1)
    ax.semilogy(steps, history.residual, label="residual $||b - A x|| / ||b||$")
    if np.isfinite(history.error).any():
        ax.semilogy(steps, history.error, label="error $||x - x_0|| / ||x_0||$")
    if history.best:
        ax.axvline(history.best, color="grey", linestyle=":", label=f"least error: {history.best}")
    ax.set_xlabel("iteration")
    ax.set_ylabel("relative norm")
    ax.grid(True, alpha=0.3)
    ax.legend()
    if history.ended:
        ax.set_title(f"ended by {history.ended}")
    return ax


def plot_report(report: Any, ax: Any = None) -> Any:
    """The bars of `RunReport.plot`."""
    pyplot = need("matplotlib.pyplot", "RunReport.plot")
    ax = ax or pyplot.subplots(figsize=(6, 2.6), layout="constrained")[1]
    names = [name for name, (seconds, _) in report.stages.items() if seconds > 0]
    seconds = [report.stages[name][0] for name in names]
    colours = ["C1" if name == report.limiting else "C0" for name in names]
    ax.barh(names, seconds, color=colours)
    ax.axvline(report.seconds, color="black", linestyle=":", label=f"whole: {report.seconds:.3g} s")
    ax.invert_yaxis()
    ax.set_xlabel("busy time (s); stages overlap")
    ax.legend()
    return ax


def plot_scan(scan: Any, view: Optional[int] = None, row: Optional[int] = None) -> np.ndarray:
    """The pictures of `Scan.plot`."""
    pyplot = need("matplotlib.pyplot", "Scan.plot")
    views, rows, _ = scan.shape
    view = range(views)[views // 2 if view is None else view]
    row = range(rows)[rows // 2 if row is None else row]
    pictures = [(f"projection, view {view}", scan._frame(view), "row"),
                (f"sinogram, row {row}", scan.views(slice(row, row + 1))[:, 0], "view")]
    flats = scan.flats()
    if len(flats):
        pictures.append((f"mean of {len(flats)} flat fields", flats.mean(0), "row"))
    figure, axes = pyplot.subplots(1, len(pictures), figsize=(4.6 * len(pictures), 4),
                                   squeeze=False, layout="constrained")
    for ax, (title, image, name) in zip(axes[0], pictures):
        low, high = _window([image], None)
        drawn = ax.imshow(image, cmap="gray", vmin=low, vmax=high, interpolation="nearest",
                          origin="lower" if name == "row" else "upper",
                          aspect="equal" if name == "row" else "auto")
        ax.set_title(title)
        ax.set_xlabel("column")
        ax.set_ylabel(name)
        figure.colorbar(drawn, ax=ax, shrink=0.8,
                        label="counts" if scan.counts else "line integral")
    return axes[0]
