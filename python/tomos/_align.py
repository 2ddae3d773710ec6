"""Alignment of the views of a scan."""
from __future__ import annotations

import ctypes
import warnings
from typing import Any

import numpy as np

from ._arrays import Array, read_view, to_host
from ._call import run
from ._library import lib
from ._options import GROUPS, with_options
from ._projector import Projector


def _align(A: Projector, y: Array, *, progress: bool = False, **options: Any) -> np.ndarray:
    if not isinstance(A, Projector):
        raise TypeError(f"tomos.align works on a tomos.Projector, not on a {type(A).__name__}")
    view = read_view(to_host(y), tuple(A.range), 1, "the projections")
    motions, poses = np.zeros((A.range[0], 3)), np.zeros((A.range[0], 6))
    settings = GROUPS["align"].fill(**options)
    if lib.align_cut(view.pointer):
        warnings.warn("the object goes on beyond the first or last row: parts of it move in and "
                      "out of view, and shifts along the rows are less certain", stacklevel=3)
    run(lib.align, A._backend, ctypes.byref(A.grid._struct), A.geometry._handle, view.pointer,
        motions.ctypes.data, poses.ctypes.data, ctypes.byref(settings), show=progress,
        keep=(A, view, motions, poses, settings))
    return poses


align = with_options(_align, GROUPS["align"].rows, """Finds the motion of each view of a scan from
    its projections y alone: shifts along the detector's columns and rows, and with `fit_roll` the
    roll, the rotation in the plane of the detector.

    The result are poses (views, 6) for `Geometry.moved`. Shifts that are those of the whole object
    are not determined by the data, and removed. The grid of `A` has to contain the object.

    >>> scan = tomos.parallel(views=20, rows=16, columns=16)
    >>> A = tomos.Projector(tomos.Grid((16, 16, 16)), scan)
    >>> ball = tomos.Phantom([tomos.Ellipsoid(axes=(5, 4, 3), value=0.1)])
    >>> poses = tomos.align(A, ball.project(scan), rounds=1)
    >>> aligned = tomos.Projector(A.grid, scan.moved(poses))
    >>> bool(abs(poses).max() < 0.5)
    True
    """, "align")
