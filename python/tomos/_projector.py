"""Projectors as linear operators."""
from __future__ import annotations

import ctypes
import operator
import weakref
from typing import Any, Optional

import numpy as np

from ._arrays import host_view, read_view
from ._call import call
from ._geometry import Geometry, Grid
from ._library import MatrixStruct, check, choices, lib, new
from ._operator import End, Operator, projections_end, volume_end
from ._options import GROUPS, describe_class, unknown_option

_FLOAT = np.dtype(np.float32)


def backends() -> tuple[str, ...]:
    """The names of backends, for `backend=`.

    >>> "cpu" in tomos.backends()
    True
    """
    return choices(lib.backend_names())


def models() -> tuple[str, ...]:
    """The names of projector models, for `model=`.

    >>> "joseph" in tomos.models()
    True
    """
    return choices(lib.projector_names())


def threads(count: Optional[int] = None) -> int:
    """The number of threads; given a count, sets it first (0: all cores).

    >>> tomos.threads(2)
    2
    """
    if count is not None:
        check(lib.set_threads(operator.index(count)))
    return lib.threads()


class Projector(Operator):
    """The projector of a scan, `A @ x`, with its exact adjoint, `A.T @ y`.

    Volumes are (nz, ny, nx), projections (views, rows, columns); a slice may be (ny, nx), the
    projections of one row (views, columns), and both may be flat, as in SciPy. The result has as
    many axes as the argument where that is possible. float32 arrays of any strides are used without
    a copy, others are converted. Arrays of PyTorch and CuPy give arrays of the same kind.

    `grid` None means `geometry.grid()`.
    """
    __slots__ = ("grid", "geometry", "model", "options")

    def __init__(self, grid: Optional[Grid], geometry: Geometry, model: str = "joseph",
                 backend: str = "auto", **options: Any) -> None:
        if not isinstance(geometry, Geometry) or not isinstance(grid, (Grid, type(None))):
            raise TypeError("a projector needs a tomos.Grid (or None) and a tomos.Geometry, not "
                            f"{type(grid).__name__} and {type(geometry).__name__}")
        for name in options:
            if name not in GROUPS["projector"].rows or name == "forward":
                raise unknown_option("tomos.Projector", name,
                                     ["model", "backend", *GROUPS["projector"].but("forward")])
        self.grid = grid if grid is not None else geometry.grid()
        self.geometry, self.model, self.options = geometry, model, options
        self._set_up(volume_end(self.grid.shape), projections_end(geometry.shape), backend)
        self._own(new(lib.op_projector, self._backend, ctypes.byref(self.grid._struct),
                      geometry._handle, ctypes.byref(self._projector_options())))

    def _projector_options(self) -> ctypes.Structure:
        return GROUPS["projector"].fill(forward=self.model, **self.options)

    def matrix(self) -> Any:
        """The matrix as a scipy.sparse.csr_array, one row per ray."""
        from scipy.sparse import csr_array
        options = self._projector_options()
        handle = ctypes.c_void_p()
        call(lib.op_matrix, ctypes.byref(handle), self._backend, ctypes.byref(self.grid._struct),
             self.geometry._handle, ctypes.byref(options), None, keep=(self, options, handle))
        owner = _MatrixOwner(handle.value)
        m = MatrixStruct()
        check(lib.matrix_arrays(owner.handle, ctypes.byref(m)))
        index = {4: np.int32, 8: np.int64}
        parts = (owner.array(m.values, m.count, _FLOAT),
                 owner.array(m.indices, m.count, index[m.index_bytes]),
                 owner.array(m.pointers, m.rows + 1, index[m.pointer_bytes]))
        return csr_array(parts, shape=(m.rows, m.columns))

    def pose_jacobian(self, x: Any) -> "PoseJacobian":
        """The derivative of `A @ x` with respect to the poses of the views, as an operator.

        `J @ p` is the change of the projections for small changes p (views, 6) of the poses, as
        `Geometry.moved` takes them; `J.T @ y` its adjoint. Projections by Joseph's method are
        piecewise smooth in the pose; the derivative is that of the pieces, and where a ray passes
        exactly through voxel centres the mean of those on both sides.

        >>> A = tomos.Projector(tomos.Grid(16), tomos.parallel(views=12, columns=16))
        >>> J = A.pose_jacobian(np.ones((16, 16)))
        >>> (J @ np.zeros((12, 6))).shape, (J.T @ np.ones((12, 16))).shape
        ((12, 16), (12, 6))
        """
        return PoseJacobian(self, x)

    def pose_derivative(self, x: Any) -> np.ndarray:
        """The derivatives of `A @ x` with respect to the six numbers of each view's pose, as an
        array (views, 6, rows, columns): the columns of `pose_jacobian`.

        >>> A = tomos.Projector(tomos.Grid(16), tomos.parallel(views=12, columns=16))
        >>> A.pose_derivative(np.ones((16, 16))).shape
        (12, 6, 1, 16)
        """
        views, rows, columns = self.range
        read = read_view(x if hasattr(x, "shape") else np.asarray(x), *self._source)
        out = np.empty((views, 6, rows, columns), _FLOAT)
        written = host_view(out.reshape(6 * views, rows, columns))
        call(lib.pose_derivative, self._op, read.pointer, 0, views, written.pointer,
             keep=(self, read, written))
        return out

    def __reduce__(self) -> tuple:
        return _remake, (self.grid, self.geometry, self.model, self._name, self.options)

    def plot(self, ax: Any = None, views: int = 8, unit: str = "mm") -> Any:
        """Draws its scan and its grid in 3-D with matplotlib, as `Geometry.plot`; returns the
        axes."""
        return self.geometry.plot(ax, self.grid, views, unit)

    def __repr__(self) -> str:
        return (f"<tomos.Projector {' x '.join(map(str, self.domain))} to "
                f"{' x '.join(map(str, self.range))}, {lib.op_describe(self._op).decode()}>")


class PoseJacobian(Operator):
    """The derivative of a projector's result with respect to poses; see
    `Projector.pose_jacobian`."""
    __slots__ = ("_projector", "_x")

    def __init__(self, projector: Projector, x: Any) -> None:
        self._projector, self._x = projector, x if hasattr(x, "shape") else np.asarray(x)
        read = read_view(self._x, *projector._source)
        self._set_up(End((1, projector.range[0], 6), 0, "the poses"), projector._target,
                     projector._name)
        self._long = projector._long
        self._own(new(lib.op_poses, projector._op, read.pointer))

    def adjoint(self, y: Any, out: Any = None) -> Any:
        found = super().adjoint(y, out)
        return found.reshape(found.shape[-2:]) if out is None and found.ndim == 3 else found

    def __reduce__(self) -> tuple:
        return PoseJacobian, (self._projector, self._x)


def _remake(grid: Grid, geometry: Geometry, model: str, backend: str, options: dict) -> Projector:
    return Projector(grid, geometry, model, backend, **options)


class _MatrixOwner:
    """Owner of a stored matrix, kept as long as an array refers to its memory."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        weakref.finalize(self, lib.op_free, handle)

    def array(self, address: int, count: int, dtype: Any) -> np.ndarray:
        block = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address or 0)
        block.owner = self  # type: ignore[attr-defined]
        return np.frombuffer(block, dtype, count)


describe_class(Projector, GROUPS["projector"].but("forward"), """
    >>> A = tomos.Projector(tomos.Grid(64), tomos.parallel(views=90, columns=64))
    >>> y = A @ np.ones((64, 64), np.float32)
    >>> y.shape, (A.T @ y).shape
    ((90, 64), (64, 64))
    """)
