"""Backends, which are opened once, and arrays in their memory."""
from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from ._library import ArrayStruct, check, lib, new

_FLOAT = np.dtype(np.float32)
_backends: dict[str, int] = {}


def open_backend(name: str) -> int:
    """The handle of a backend, opened once and kept."""
    if name not in _backends:
        if not isinstance(name, str):
            raise TypeError(f"a backend is one of the names {lib.backend_names().decode()}, not "
                            f"{name!r}")
        _backends[name] = new(lib.backend_open, name.encode())
    return _backends[name]


class DeviceArray:
    """A float32 array in the memory of a backend: on a GPU, or on the host for the cpu backend.

    `tomos.empty` and `tomos.to_device` make it, `to_host` copies it back, `x[...] = values` assigns
    it.
    Projectors and methods use it without a copy. On an NVIDIA GPU, `torch.as_tensor(x,
    device="cuda")` and `cupy.asarray(x)` refer to its memory; on the host `numpy.asarray(x)` does.

    >>> x = tomos.to_device(np.ones((16, 16)), "cpu")
    >>> x
    <tomos.DeviceArray 16 x 16 on cpu>
    >>> A = tomos.Projector(tomos.Grid(16), tomos.parallel(views=12, columns=16), backend="cpu")
    >>> y = A @ x
    >>> y, y.to_host().shape
    (<tomos.DeviceArray 12 x 16 on cpu>, (12, 16))
    """
    __slots__ = ("shape", "backend", "_struct", "_memory", "__weakref__")
    __array_ufunc__ = None  # NumPy cannot compute with it
    dtype = _FLOAT

    def __init__(self, shape: tuple, backend: str, memory: "_Memory") -> None:
        self.shape, self.backend, self._memory = shape, backend, memory
        n = (1,) * (3 - len(shape)) + shape
        self._struct = ArrayStruct(memory.struct.data, n, (n[1] * n[2], n[2], 1),
                                   memory.struct.device)

    ndim = property(lambda self: len(self.shape), doc="The number of axes.")
    size = property(lambda self: math.prod(self.shape), doc="The number of elements.")
    nbytes = property(lambda self: 4 * self.size, doc="Its size in bytes.")
    device = property(lambda self: self._struct.device,
                      doc="0: host; 1 to 1000: ordinal of the GPU plus 1; from 1001: OpenCL.")

    def empty(self, shape: Sequence[int]) -> "DeviceArray":
        """Another array on the same backend."""
        return empty(shape, self.backend)

    def reshape(self, *shape: Any) -> "DeviceArray":
        """The same memory with another shape."""
        sizes = _sizes(shape[0] if len(shape) == 1 else shape)
        if math.prod(sizes) != self.size:
            raise ValueError(f"an array of shape {self.shape} cannot have the shape {sizes}")
        return DeviceArray(sizes, self.backend, self._memory)

    def to_host(self, out: Optional[np.ndarray] = None) -> np.ndarray:
        """A copy as a NumPy array, in `out` if that is given."""
        result = np.empty(self.shape, _FLOAT) if out is None else out
        if not isinstance(result, np.ndarray) or result.dtype != _FLOAT \
                or not result.flags.writeable:
            raise TypeError("out is written in place, so it must be a writable float32 array")
        if result.shape != self.shape:
            raise ValueError(f"out has shape {result.shape}, the array {self.shape}")
        self._copy(self._struct, _host_struct(result))
        return result

    def __setitem__(self, where: Any, values: Any) -> None:
        if where is not Ellipsis:
            raise TypeError("a DeviceArray is assigned as a whole, x[...] = values, not at "
                            f"{where!r}")
        if isinstance(values, DeviceArray):
            values = values.to_host()
        host = np.broadcast_to(np.asarray(values, _FLOAT), self.shape)
        self._copy(_host_struct(host), self._struct)

    def _copy(self, source: ArrayStruct, target: ArrayStruct) -> None:
        check(lib.array_copy(self._memory.backend, ctypes.byref(source), ctypes.byref(target)))

    @property
    def _shown(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": _FLOAT.str, "data": (self._struct.data, False),
                "version": 3}

    def __getattr__(self, name: str) -> Any:
        if name == "__array_interface__" and not self.device:
            return self._shown
        if name == "__cuda_array_interface__" and self._memory.is_cuda:
            return {**self._shown, "strides": None, "stream": None}
        raise AttributeError(f"a DeviceArray on {self.backend} has no {name!r}")

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        raise TypeError(f"{self!r} is not in host memory; to_host() copies it there")

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce__(self) -> tuple:
        return to_device, (self.to_host(), self.backend)

    def __repr__(self) -> str:
        return f"<tomos.DeviceArray {' x '.join(map(str, self.shape))} on {self.backend}>"


class _Memory:
    """A block of memory of a backend, freed with the last array that uses it."""

    def __init__(self, shape: tuple, name: str) -> None:
        self.backend, self.struct = open_backend(name), ArrayStruct()
        check(lib.array_create(ctypes.byref(self.struct), self.backend,
                               *(1,) * (3 - len(shape)), *shape))
        cuda = lib.backend_describe(self.backend).startswith(b"cuda")
        self.is_cuda = cuda and self.struct.device > 0
        weakref.finalize(self, _destroy, self.struct, self.backend)


def _destroy(struct: ArrayStruct, backend: int) -> None:
    lib.array_destroy(ctypes.byref(struct), backend)


def _host_struct(array: np.ndarray) -> ArrayStruct:
    padding = (1,) * (3 - array.ndim)
    return ArrayStruct(array.__array_interface__["data"][0], padding + array.shape,
                       (0,) * len(padding) + tuple(s // 4 for s in array.strides))


def _sizes(shape: Union[int, Sequence[int]]) -> tuple[int, ...]:
    sizes = (shape,) if hasattr(shape, "__index__") else tuple(shape)  # type: ignore[arg-type]
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"the shape {sizes} has {len(sizes)} axes; it may have 1 to 3")
    return tuple(n.__index__() for n in sizes)


def empty(shape: Union[int, Sequence[int]], backend: str = "auto") -> DeviceArray:
    """An uninitialised array in the memory of a backend.

    >>> tomos.empty((4, 8, 8), "cpu").nbytes
    1024
    """
    sizes = _sizes(shape)
    return DeviceArray(sizes, backend, _Memory(sizes, backend))


def to_device(values: Any, backend: str = "auto") -> DeviceArray:
    """A copy of an array in the memory of a backend.

    >>> x = tomos.to_device(tomos.phantom("shepp-logan-2d-modified", 32), "cpu")
    >>> x.shape, float(x.to_host().max())
    ((32, 32), 1.0)
    """
    host = values.to_host() if isinstance(values, DeviceArray) else np.asarray(values)
    array = empty(host.shape, backend)
    array[...] = host
    return array
