"""Linear operators: base class of projectors, sums, products, SciPy's matrices and operators."""
from __future__ import annotations

import contextlib
import ctypes
import math
import numbers
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional

import numpy as np

from ._arrays import Array, empty, host_view, read_view, write_view
from ._call import call, run
from ._device import open_backend
from ._html import table, times
from ._library import APPLY, CustomStruct, Error, MatrixStruct, Shape, check, lib, new

_FLOAT = np.dtype(np.float32)
_VOLUME, _PROJECTIONS = 0, 1  # the axis that may be missing: one slice, one row
_LONG = 3e7  # voxels times views; calls with more work run in a thread so that Ctrl-C stops them


class End(NamedTuple):
    """The volume or the projections: three axes, the one an array may lack, its name."""
    shape: tuple
    axis: int
    name: str


def volume_end(shape: tuple) -> End:
    return End(shape, _VOLUME, "the volume")


def projections_end(shape: tuple) -> End:
    return End(shape, _PROJECTIONS, "the projections")


class Operator:
    """A linear operator: a `Projector`, or one made of others: `A.T`, `2 * A`, `A + B`, `A.T @ A`.

    `A @ x` applies it, `A.T @ y` its adjoint, to arrays as a projector takes them. SciPy's solvers
    accept it, and so do all methods that only need these two products. Matrices and LinearOperators
    of SciPy can be terms and factors as well.

    >>> A = tomos.Projector(None, tomos.parallel(views=8, columns=8))
    >>> normal = A.T @ A + 0.1 * tomos.Operator.identity(A)
    >>> normal.shape, (normal @ np.ones((8, 8))).shape
    ((64, 64), (8, 8))
    """
    __slots__ = ("_source", "_target", "shape", "_op", "_backend", "_name", "_long", "_functions",
                 "__weakref__")
    __array_ufunc__ = None  # NumPy then calls our `__rmatmul__` and `__rmul__`
    dtype = _FLOAT
    shape: tuple[int, int]

    def _set_up(self, source: End, target: End, backend: str, functions: tuple = ()) -> None:
        self._source, self._target, self._functions = source, target, functions
        self.shape = (math.prod(target.shape), math.prod(source.shape))
        self._long = self.shape[1] * target.shape[0] > _LONG
        self._name, self._backend = backend, open_backend(backend)

    def _own(self, handle: int) -> None:
        self._op = handle
        weakref.finalize(self, lib.op_free, handle)

    @staticmethod
    def identity(like: "Operator") -> "Operator":
        """The identity on the volumes that an operator takes.

        >>> A = tomos.Projector(None, tomos.parallel(views=8, columns=8))
        >>> tomos.Operator.identity(A).shape
        (64, 64)
        """
        return Wrapped(_Identity(like.shape[1]), like._source, like._source, like._name)

    @property
    def domain(self) -> tuple:
        """The shape of its argument."""
        return self._source.shape

    @property
    def range(self) -> tuple:
        """The shape of its result."""
        return self._target.shape

    def __call__(self, x: Array, out: Any = None) -> Any:
        """The operator applied to x, in `out` if that is given."""
        if type(x) is np.ndarray and out is None and x.shape == self._source.shape \
                and x.dtype == _FLOAT and x.flags.c_contiguous and not self._long \
                and not self._functions:
            y = np.empty(self._target.shape, _FLOAT)  # no conversion needed: less overhead
            check(lib.op_forward(self._op, host_view(x).pointer, host_view(y).pointer))
            return y
        return self._apply(lib.op_forward, x, out, self._source, self._target)

    forward = __call__

    def adjoint(self, y: Array, out: Any = None) -> Any:
        """The adjoint applied to y, in `out` if that is given."""
        return self._apply(lib.op_adjoint, y, out, self._target, self._source)

    def _apply(self, function: Any, x: Any, out: Any, source: End, target: End) -> Any:
        if not hasattr(x, "shape"):
            x = np.asarray(x)
        read = read_view(x, *source)
        if out is None:
            out = empty(x, like(x.ndim, target))
        written = write_view(out, target.shape, target.axis, "out")
        with own_failures(self):
            if self._long:
                call(function, self._op, read.pointer, written.pointer, keep=(self, read, written))
            else:
                check(function(self._op, read.pointer, written.pointer))
        return out

    def matvec(self, x: Array) -> Any:
        """`A @ x`; a column (n, 1) gives a column, as SciPy has it."""
        return _columns(self, x, self.shape[::-1])

    def rmatvec(self, y: Array) -> Any:
        """`A.T @ y`; a column (m, 1) gives a column."""
        return _columns(self.adjoint, y, self.shape)

    def matmat(self, x: Array) -> np.ndarray:
        """`A @ x` of each column of a matrix."""
        return _each_column(self, x, self.shape[::-1])

    def rmatmat(self, y: Array) -> np.ndarray:
        """`A.T @ y` of each column of a matrix."""
        return _each_column(self.adjoint, y, self.shape)

    @property
    def T(self) -> "Operator":
        """The adjoint as an operator."""
        return Adjoint(self)

    @property
    def H(self) -> "Operator":
        """The same as `T`, as the matrix is real."""
        return self.T

    @property
    def matched(self) -> bool:
        """Whether `A.T` is the transpose of `A`; false for projectors with another `back` model."""
        return bool(lib.op_matched(self._op))

    @property
    def backend(self) -> str:
        """A description of the device that computes."""
        return lib.backend_describe(self._backend).decode()

    def norm(self) -> float:
        """The largest singular value, to about five digits; computed at the first call."""
        value = ctypes.c_double()
        with own_failures(self):
            run(lib.op_norm, self._op, ctypes.byref(value), keep=(self, value))
        return value.value

    def as_linear_operator(self) -> Any:
        """A scipy.sparse.linalg.LinearOperator on flat vectors; SciPy's functions also take `A`."""
        from ._scipy import Linear
        return Linear(self)

    def __matmul__(self, x: Any) -> Any:
        if _is_operator(x):
            return Composite("product", (self, _beside(x, self, target=self._source)))
        return self(x)

    dot = __matmul__

    def __rmatmul__(self, x: Any) -> Any:
        if _is_operator(x):
            return Composite("product", (_beside(x, self, source=self._target), self))
        raise TypeError("an operator is applied with @ from the left: A @ x, A.T @ y")

    def __mul__(self, factor: Any) -> "Operator":
        if isinstance(factor, numbers.Real):
            return Composite("sum", (self,), (float(factor),))
        raise TypeError(f"an operator times a {type(factor).__name__}: * takes a real number; an "
                        "operator is applied with @: A @ x, A.T @ y")

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> "Operator":
        if not isinstance(divisor, numbers.Real):
            raise TypeError(f"an operator divided by a {type(divisor).__name__}: / takes a real "
                            "number")
        return self * (1 / float(divisor))

    def __neg__(self) -> "Operator":
        return self * -1

    def __add__(self, other: Any) -> "Operator":
        return self._plus(other, 1, 1)

    def __sub__(self, other: Any) -> "Operator":
        return self._plus(other, 1, -1)

    __radd__ = __add__

    def __rsub__(self, other: Any) -> "Operator":
        return self._plus(other, -1, 1)

    def _plus(self, other: Any, mine: float, theirs: float) -> "Operator":
        if not _is_operator(other):
            raise TypeError(f"an operator and a {type(other).__name__} cannot be added; A + B adds "
                            "operators, A @ x + y adds to a result")
        other = _beside(other, self, self._source, self._target)
        return Composite("sum", (self, other), (mine, theirs))

    def __repr__(self) -> str:
        return (f"<tomos.Operator {' x '.join(map(str, self.domain))} to "
                f"{' x '.join(map(str, self.range))}, {lib.op_describe(self._op).decode()}>")

    def _repr_html_(self) -> str:
        return table(type(self).__name__, {
            "from": times(self.domain), "to": times(self.range),
            "matrix": f"{self.shape[0]} x {self.shape[1]}",
            "computed": lib.op_describe(self._op).decode()})


class Adjoint(Operator):
    """The adjoint of an operator: `A.T @ y`, `A.T.T is A`."""
    __slots__ = ("_of", "_made")

    def __init__(self, operator: Operator) -> None:
        self._of = operator
        self._made: Optional[_Handle] = None
        self._source, self._target = operator._target, operator._source
        self.shape = operator.shape[::-1]
        self._functions, self._long = operator._functions, operator._long
        self._name, self._backend = operator._name, operator._backend

    @property
    def _op(self) -> int:  # type: ignore[override]
        if self._made is None:  # products use the adjoint of A itself
            self._made = _Handle(new(lib.op_transpose, self._of._op))
        return self._made.value

    @property
    def T(self) -> Operator:
        return self._of

    def __call__(self, y: Array, out: Any = None) -> Any:
        return self._of.adjoint(y, out)

    forward = __call__

    def adjoint(self, x: Array, out: Any = None) -> Any:
        return self._of(x, out)

    def norm(self) -> float:
        return self._of.norm()

    def matrix(self) -> Any:
        """The transposed matrix of the operator; projectors have one."""
        return self._of.matrix().T  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple:
        return Adjoint, (self._of,)

    def __repr__(self) -> str:
        kind = type(self._of)
        return f"<{kind.__module__.partition('.')[0]}.{kind.__name__}.T of {self._of!r}>"


class _Handle:
    """Owner of an operator of the library, which is freed with it."""

    def __init__(self, value: int) -> None:
        self.value = value
        weakref.finalize(self, lib.op_free, value)


class Composite(Operator):
    """A sum a A + b B or a product A B of operators."""
    __slots__ = ("_kind", "_parts", "_factors")

    def __init__(self, kind: str, parts: tuple, factors: tuple = ()) -> None:
        self._kind, self._parts, self._factors = kind, parts, factors
        self._set_up(parts[-1]._source, parts[0]._target, parts[0]._name,
                     sum((part._functions for part in parts), ()))
        self._long = any(part._long for part in parts)
        if kind == "product":
            self._own(new(lib.op_product, parts[0]._op, parts[1]._op))
        else:
            second = (factors[1], parts[1]._op) if len(parts) > 1 else (0.0, None)
            self._own(new(lib.op_sum, factors[0], parts[0]._op, *second))

    def __reduce__(self) -> tuple:
        return Composite, (self._kind, self._parts, self._factors)


class Wrapped(Operator):
    """A sparse matrix or a LinearOperator of SciPy, between arrays of given shapes."""
    __slots__ = ("_given", "_keep")

    def __init__(self, given: Any, source: End, target: End, backend: str) -> None:
        self._given = given
        functions = () if hasattr(given, "tocsr") else (_Functions(given),)
        self._set_up(source, target, backend, functions)
        shapes = Shape(*source.shape), Shape(*target.shape)
        if functions:
            self._keep = functions[0].struct
            self._own(new(lib.op_custom, self._backend, *shapes, ctypes.byref(self._keep)))
        else:
            self._own(new(lib.op_matrix_arrays, self._backend, ctypes.byref(_csr(given)), *shapes))

    def __reduce__(self) -> tuple:
        return Wrapped, (self._given, self._source, self._target, self._name)


class _Identity:
    def __init__(self, n: int) -> None:
        self.shape = (n, n)

    def matvec(self, x: np.ndarray) -> np.ndarray:
        return x

    rmatvec = matvec


class _Functions:
    """Callbacks for the library, which call matvec and rmatvec of a Python object."""

    def __init__(self, given: Any) -> None:
        self.failure: Optional[BaseException] = None
        m, n = given.shape
        name = f"{type(given).__module__.partition('.')[0]}'s {type(given).__name__}"
        self.struct = CustomStruct(self._wrap(given.matvec, n, m), self._wrap(given.rmatvec, m, n),
                                   None, name.encode())

    def _wrap(self, product: Callable, count: int, wanted: int) -> Any:
        owner = weakref.ref(self)

        def apply(_, source, target) -> int:
            try:
                x = _memory(source, count).copy()  # the function may keep or change it
                _memory(target, wanted)[...] = _result(product(x), wanted, product)
                return 0
            except BaseException as raised:  # exceptions cannot cross C code
                owner().failure = raised
                return 1
        return APPLY(apply)


def _memory(array: Any, count: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_float * count).from_address(array.contents.data), _FLOAT)


def _result(y: Any, wanted: int, product: Callable) -> np.ndarray:
    y = np.asarray(y)
    if y.size != wanted or y.dtype.kind not in "biuf":
        name = getattr(product, "__qualname__", "the operator")
        raise ValueError(f"{name} returned {y.dtype} of shape {y.shape}; expected {wanted} real "
                         "numbers")
    return y.ravel()


@contextlib.contextmanager
def own_failures(A: Operator) -> Iterator[None]:
    """Raises what a Python function of the operator raised, instead of the library's error."""
    for functions in A._functions:
        functions.failure = None  # of a call that was interrupted
    try:
        yield
    except Error:
        for functions in A._functions:
            if functions.failure is not None:
                raise functions.failure from None
        raise
    finally:
        for functions in A._functions:
            functions.failure = None  # it refers to all frames of the call


def _csr(given: Any) -> MatrixStruct:
    matrix = given.tocsr()
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"the matrix has elements of type {matrix.dtype}; they must be real "
                        "numbers")
    parts = [np.ascontiguousarray(matrix.indptr), np.ascontiguousarray(matrix.indices),
             np.ascontiguousarray(matrix.data, _FLOAT)]
    sizes = {part.dtype.itemsize for part in parts[:2]}
    if sizes not in ({4}, {8}):
        parts[:2] = [part.astype(np.int64) for part in parts[:2]]
    struct = MatrixStruct(*matrix.shape, matrix.nnz, parts[0].dtype.itemsize,
                          parts[1].dtype.itemsize, *(part.ctypes.data for part in parts))
    struct.owner = parts
    return struct


def _is_operator(x: Any) -> bool:
    """A tomos operator, a sparse matrix, or an object with matvec and rmatvec."""
    if isinstance(x, (Operator, np.ndarray)):
        return isinstance(x, Operator)
    return len(getattr(x, "shape", ())) == 2 and (
        hasattr(x, "tocsr") or (hasattr(x, "matvec") and hasattr(x, "rmatvec")))


def _beside(x: Any, like: Operator, source: Optional[End] = None,
            target: Optional[End] = None) -> Operator:
    """The other operand of a sum or product as an operator on the same backend."""
    own = getattr(x, "tomos_operator", x)
    if isinstance(own, Operator):
        return own
    ends = []
    for end, count, axis in ((source, x.shape[1], _VOLUME), (target, x.shape[0], _PROJECTIONS)):
        fits = end is not None and math.prod(end.shape) == count
        ends.append(end if fits else End((1, 1, count), axis, "the vector"))
    return Wrapped(x, *ends, like._name)


def as_operator(A: Any, method: str, b: Any, volumes: tuple) -> Operator:
    """The operator a method works on. A matrix has no axes: they are taken from the projections and
    from the first volume given."""
    A = getattr(A, "tomos_operator", A)
    if isinstance(A, Operator):
        return A
    if not _is_operator(A):
        raise TypeError(f"{method} works on a tomos.Projector or another tomos.Operator, a sparse "
                        f"matrix or a LinearOperator, not on a {type(A).__name__}")
    shape = next((tuple(v.shape) for v in volumes if hasattr(v, "shape")), ())
    source = volume_end(_axes(shape, A.shape[1], _VOLUME))
    target = projections_end(_axes(tuple(b.shape), A.shape[0], _PROJECTIONS))
    return Wrapped(A, source, target, "auto" if hasattr(A, "tocsr") else "cpu")


def _axes(shape: tuple, count: int, axis: int) -> tuple:
    """Three axes: those of the array if its size is `count`, else one axis of that length."""
    if len(shape) not in (2, 3) or math.prod(shape) != count:
        return (1, 1, count) if axis == _VOLUME else (count, 1, 1)
    return shape if len(shape) == 3 else shape[:axis] + (1,) + shape[axis:]


def like(ndim: int, end: End) -> tuple:
    """The shape of a result, with as many axes as the input where that is possible."""
    if ndim == 1:
        return (math.prod(end.shape),)
    if ndim == 2 and end.shape[end.axis] == 1:
        return end.shape[:end.axis] + end.shape[end.axis + 1:]
    return end.shape


def _columns(product: Callable, x: Any, sizes: tuple) -> Any:
    n, m = sizes
    if np.shape(x) == (n, 1):
        return product(np.ravel(x)).reshape(m, 1)
    return product(x)


def _each_column(product: Callable, x: Any, sizes: tuple) -> np.ndarray:
    n, m = sizes
    x = np.asarray(x)
    if x.ndim != 2 or x.shape[0] != n:
        raise ValueError(f"the matrix has shape {x.shape}; expected ({n}, columns)")
    out = np.empty((m, x.shape[1]), _FLOAT)
    for j in range(x.shape[1]):
        out[:, j] = product(np.ascontiguousarray(x[:, j]))
    return out
