"""The projector as a linear operator."""
from __future__ import annotations

import ctypes
import math
import operator
import weakref
from typing import Any, Optional

import numpy as np

from ._arrays import Array, empty, host_view, read_view, write_view
from ._call import call
from ._device import open_backend
from ._geometry import Geometry, Grid
from ._library import MatrixStruct, check, choices, lib, new
from ._options import GROUPS, describe_class, unknown_option

_FLOAT = np.dtype(np.float32)
_VOLUME, _PROJECTIONS = 0, 1  # the axis that may be missing: one slice, one row
_LONG = 3e7                   # voxels times views from which a call is made so that Ctrl-C stops it


def backends() -> tuple[str, ...]:
    """The names that `backend=` takes.

    >>> "cpu" in tomos.backends()
    True
    """
    return choices(lib.backend_names())


def models() -> tuple[str, ...]:
    """The names that `model=` takes.

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


class _Operator:
    """What a projector and its adjoint share."""
    __slots__ = ()
    __array_ufunc__ = None  # so that NumPy leaves `A @ x` to us
    dtype = _FLOAT
    shape: tuple[int, int]

    def __matmul__(self, x: Array) -> Any:
        return self(x)  # type: ignore[operator]

    dot = matvec = __matmul__

    def __mul__(self, x: Any) -> Any:
        raise TypeError("an operator is applied with @: A @ x, A.T @ y")

    __rmul__ = __rmatmul__ = __mul__


class Projector(_Operator):
    """The projector of a scan and its exact adjoint: `A @ x`, `A.T @ y`.

    Volumes are (nz, ny, nx), projections (views, rows, columns); a slice may be (ny, nx), the
    projections of one row (views, columns), and either may be flat, as SciPy has it. The result has
    as many axes as what was given, where that can be. float32 arrays of any strides are used where they
    lie, others are converted once. Arrays of PyTorch and CuPy give such arrays.

    `grid` None stands for `geometry.grid()`.
    """
    __slots__ = ("grid", "geometry", "model", "options", "domain", "range", "shape", "_op", "_backend", "_name",
                 "_long", "__weakref__")

    def __init__(self, grid: Optional[Grid], geometry: Geometry, model: str = "joseph",
                 backend: str = "auto", **options: Any) -> None:
        if not isinstance(geometry, Geometry) or not isinstance(grid, (Grid, type(None))):
            raise TypeError("a projector is made of a tomos.Grid (or None) and a tomos.Geometry, not of "
                            f"{type(grid).__name__} and {type(geometry).__name__}")
        for name in options:
            if name not in GROUPS["projector"].rows or name == "forward":
                raise unknown_option("tomos.Projector", name,
                                     ["model", "backend", *GROUPS["projector"].but("forward")])
        self.grid = grid if grid is not None else geometry.grid()
        self.geometry, self.model, self.options = geometry, model, options
        self.domain, self.range = self.grid.shape, geometry.shape
        self.shape = (math.prod(self.range), math.prod(self.domain))
        self._long = self.shape[1] * self.range[0] > _LONG
        self._name, self._backend = backend, open_backend(backend)
        self._op = new(lib.op_projector, self._backend, ctypes.byref(self.grid._struct),
                       geometry._handle, ctypes.byref(self._projector_options()))
        weakref.finalize(self, lib.op_free, self._op)

    def _projector_options(self) -> ctypes.Structure:
        return GROUPS["projector"].fill(forward=self.model, **self.options)

    def __call__(self, x: Array, out: Any = None) -> Any:
        """The projections of a volume, in `out` if that is given."""
        if type(x) is np.ndarray and out is None and x.shape == self.domain and x.dtype == _FLOAT \
                and not self._long and x.flags.c_contiguous:
            y = np.empty(self.range, _FLOAT)  # the short way: nothing to look into
            check(lib.op_forward(self._op, host_view(x).pointer, host_view(y).pointer))
            return y
        return self._apply(lib.op_forward, x, out, self.domain, _VOLUME, self.range, _PROJECTIONS)

    forward = __call__

    def adjoint(self, y: Array, out: Any = None) -> Any:
        """The back projection of projections, in `out` if that is given."""
        return self._apply(lib.op_adjoint, y, out, self.range, _PROJECTIONS, self.domain, _VOLUME)

    def _apply(self, function, x, out, shape, axis, result_shape, result_axis) -> Any:
        if not hasattr(x, "shape"):
            x = np.asarray(x)
        source = read_view(x, shape, axis, "the volume" if axis == _VOLUME else "the projections")
        if out is None:
            out = empty(x, _like(x.ndim, result_shape, result_axis))
        target = write_view(out, result_shape, result_axis, "out")
        if self._long:
            call(function, self._op, source.pointer, target.pointer, keep=(self, source, target))
        else:
            check(function(self._op, source.pointer, target.pointer))
        return out

    @property
    def T(self) -> "Adjoint":
        """The adjoint as an operator."""
        return Adjoint(self)

    @property
    def matched(self) -> bool:
        """Whether the adjoint is the transpose of the projector: not with a `back` of its own."""
        return bool(lib.op_matched(self._op))

    @property
    def backend(self) -> str:
        """What computes, in words."""
        return lib.backend_describe(self._backend).decode()

    def norm(self) -> float:
        """The largest singular value, by the power method."""
        value = ctypes.c_double()
        call(lib.op_norm, self._op, ctypes.byref(value), keep=(self, value))
        return value.value

    def as_linear_operator(self) -> Any:
        """A scipy.sparse.linalg.LinearOperator on flat vectors."""
        from scipy.sparse.linalg import LinearOperator
        return LinearOperator(self.shape, matvec=lambda x: self(np.ravel(x)),
                              rmatvec=lambda y: self.adjoint(np.ravel(y)), dtype=_FLOAT)

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

    def __reduce__(self) -> tuple:
        return _remake, (self.grid, self.geometry, self.model, self._name, self.options)

    def __repr__(self) -> str:
        return (f"<tomos.Projector {' x '.join(map(str, self.domain))} to "
                f"{' x '.join(map(str, self.range))}, {lib.op_describe(self._op).decode()}>")


def _remake(grid: Grid, geometry: Geometry, model: str, backend: str, options: dict) -> Projector:
    return Projector(grid, geometry, model, backend, **options)


class _MatrixOwner:
    """Keeps a stored matrix as long as an array shows its memory."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        weakref.finalize(self, lib.op_free, handle)

    def array(self, address: int, count: int, dtype: Any) -> np.ndarray:
        block = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address or 0)
        block.owner = self  # type: ignore[attr-defined]
        return np.frombuffer(block, dtype, count)


class Adjoint(_Operator):
    """The adjoint of a projector: `A.T @ y`, `A.T.T is A`."""
    __slots__ = ("T",)

    def __init__(self, projector: Projector) -> None:
        self.T = projector

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.T.shape[::-1]

    def __call__(self, y: Array, out: Any = None) -> Any:
        return self.T.adjoint(y, out)

    def adjoint(self, x: Array, out: Any = None) -> Any:
        return self.T(x, out)

    def norm(self) -> float:
        return self.T.norm()

    def as_linear_operator(self) -> Any:
        return self.T.as_linear_operator().T

    def matrix(self) -> Any:
        return self.T.matrix().T

    def __repr__(self) -> str:
        return f"<tomos.Projector.T of {self.T!r}>"


def _like(ndim: int, shape: tuple, axis: int) -> tuple:
    """The shape of a result, with as many axes as what was given, where that can be."""
    if ndim == 1:
        return (math.prod(shape),)
    if ndim == 2 and shape[axis] == 1:
        return shape[:axis] + shape[axis + 1:]
    return shape


describe_class(Projector, GROUPS["projector"].but("forward"), """
    >>> A = tomos.Projector(tomos.Grid(64), tomos.parallel(views=90, columns=64))
    >>> y = A @ np.ones((64, 64), np.float32)
    >>> y.shape, (A.T @ y).shape
    ((90, 64), (64, 64))
    """)
