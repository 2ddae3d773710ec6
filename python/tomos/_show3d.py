"""Drawings of grids and of scans in three dimensions: source, detector, rays, rotation axis."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ._show import need

_EDGES = [(0, 1), (0, 2), (0, 4), (1, 3), (1, 5), (2, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7),
          (6, 7)]


def _axes(ax: Any, what: str) -> Any:
    """The axes to draw on: those given, or new ones."""
    pyplot = need("matplotlib.pyplot", what)
    if ax is not None and not hasattr(ax, "zaxis"):
        raise ValueError(f"{what} draws on axes with projection='3d'")
    return ax or pyplot.figure(figsize=(6.5, 6), layout="constrained").add_subplot(projection="3d")


def _finish(ax: Any, unit: str) -> Any:
    """Equal scales and labels."""
    limits = np.array([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()])
    ax.set_box_aspect(np.ptp(limits, axis=1), zoom=0.85)
    for name in "xyz":
        getattr(ax, f"set_{name}label")(f"{name} ({unit})" if unit else name)
    return ax


def _corners(grid: Any) -> np.ndarray:
    """The eight corners of a grid, (8, 3)."""
    first, step = np.array(grid.first), np.array(grid.step)
    low = first - step / 2
    high = first + step * (np.array(grid.shape[::-1]) - 0.5)
    return np.array([[(low, high)[k >> i & 1][i] for i in range(3)] for k in range(8)])


def _box(ax: Any, grid: Any, label: str = "grid") -> None:
    corners = _corners(grid)
    for i, (a, b) in enumerate(_EDGES):
        ax.plot(*corners[[a, b]].T, color="C0", linewidth=1, label=label if i == 0 else None)
    ax.scatter(*np.array(grid.first)[:, None], color="C0", s=12, label="voxel (0, 0, 0)")


def plot_grid(grid: Any, ax: Any = None, unit: str = "mm") -> Any:
    """The drawing of `Grid.plot`."""
    ax = _axes(ax, "Grid.plot")
    _box(ax, grid)
    ax.legend(loc="upper left", fontsize="small")
    ax.set_title(" x ".join(map(str, grid.shape)) + " voxels (z, y, x)")
    return _finish(ax, unit)


# ---- scans ---------------------------------------------------------------------------------------

def _outline(view: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The corners of the detector of a view, closed, (5, 3)."""
    detector, u, v = view[4:7], view[7:10] * columns / 2, view[10:13] * rows / 2
    return np.array([detector + a * u + b * v
                     for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1))])


def _reach(geometry: Any, views: np.ndarray) -> float:
    """The length of parallel rays before and behind the origin: beyond the field of view."""
    _, rows, columns = geometry.shape
    u, v = np.linalg.norm(views[:, 7:10], axis=1), np.linalg.norm(views[:, 10:13], axis=1)
    return 0.75 * float(np.hypot(u * columns, v * rows).max())


def _placed(geometry: Any, views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The views with detectors to draw, and where their rays come from. Parallel rays have a
    detector anywhere along them: it is drawn behind the object, and the rays from before it."""
    drawn, starts = views.copy(), views[:, :3].copy()
    parallel = views[:, 3] == 0
    if parallel.any():
        ray = views[parallel, :3]
        ray = ray / np.linalg.norm(ray, axis=1, keepdims=True) * _reach(geometry, views)
        drawn[parallel, 4:7] += ray
        starts[parallel] = drawn[parallel, 4:7] - 2 * ray
    return drawn, starts


def _chosen(count: int, views: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(views, count)).round().astype(int))


def _draw_views(ax: Any, geometry: Any, drawn: np.ndarray, starts: np.ndarray) -> None:
    """The detectors, the first strongest, and the rays to the middle and the corners of it."""
    _, rows, columns = geometry.shape
    for i, (view, start) in enumerate(zip(drawn, starts)):
        shade = 1.0 if i == 0 else 0.35
        frame = _outline(view, rows, columns)
        ax.plot(*frame.T, color="C3", alpha=shade, linewidth=1.5 if i == 0 else 0.8,
                label="detector" if i == 0 else None)
        ends = np.vstack([view[4:7], frame[:4]]) if i == 0 else view[None, 4:7]
        for end in ends:
            begin = start if view[3] == 1 else end - (view[4:7] - start)
            ax.plot(*np.array([begin, end]).T, color="C1", alpha=0.8 * shade,
                    linewidth=1 if i == 0 else 0.5)
    ax.plot(*_outline(drawn[0], rows, columns)[[0, 1]].T, color="C3", linewidth=3,
            label="row 0 of the first view")


def _draw_path(ax: Any, geometry: Any) -> None:
    """The path of source and detector through all views, with the direction of rotation."""
    drawn, starts = _placed(geometry, geometry.views)
    point = bool(drawn[0, 3])
    ax.plot(*starts.T, color="C1", linewidth=1, marker="." if len(starts) <= 60 else None,
            markersize=3, alpha=0.7, label="source" if point else "side that rays come from")
    ax.scatter(*starts[:1].T, color="C1", s=40, marker="*")
    way = starts[1] - starts[0] if len(starts) > 1 else np.zeros(3)
    length = np.linalg.norm(way)
    if length > 0:
        way *= 0.2 * np.linalg.norm(np.ptp(starts, axis=0)) / length
        ax.quiver(*starts[0], *way, color="C1", linewidth=2, arrow_length_ratio=0.4)


def plot_geometry(geometry: Any, ax: Any = None, grid: Any = None, views: int = 8,
                  unit: str = "mm") -> Any:
    """The drawing of `Geometry.plot`."""
    ax = _axes(ax, "Geometry.plot")
    if views < 1:
        raise ValueError(f"views is {views}; at least one is drawn")
    grid = grid if grid is not None else _default_grid(geometry)
    chosen = geometry.views[_chosen(len(geometry), views)]
    drawn, starts = _placed(geometry, chosen)
    _draw_path(ax, geometry)
    _draw_views(ax, geometry, drawn, starts)
    if grid is not None:
        _box(ax, grid)
        height = np.ptp(_corners(grid)[:, 2]) * 0.8
    else:
        height = _reach(geometry, chosen)
    ax.plot([0, 0], [0, 0], [-height, height], color="black", linestyle="-.", linewidth=1,
            label="rotation axis z")
    ax.legend(loc="upper left", fontsize="small")
    ax.set_title(repr(geometry)[len("<tomos.Geometry "):-1], fontsize="medium", wrap=True)
    return _finish(ax, unit)


def _default_grid(geometry: Any) -> Optional[Any]:
    try:
        return geometry.grid()
    except (ValueError, NotImplementedError):
        return None
