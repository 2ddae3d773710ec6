"""Arrays of NumPy, PyTorch, CuPy and others, on the host or a GPU, as arrays of the library."""
from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from ._device import DeviceArray
from ._library import ArrayStruct

#: A NumPy array, anything NumPy converts to one, or an array on a GPU.
Array = Any
#: A list of numbers, such as one per view.
Numbers = Union[Sequence[float], np.ndarray]

_FLOAT = np.dtype(np.float32)
_DLPACK_HOST = (1, 3)   # kDLCPU, kDLCUDAHost (pinned)
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


class View:
    """A tomos_array and the object that owns its memory."""
    __slots__ = ("owner", "struct", "pointer")

    def __init__(self, owner: Any, address: int, shape: tuple, stride: tuple,
                 device: int = 0) -> None:
        self.owner = owner
        self.struct = ArrayStruct(address, shape, stride, device)
        self.struct.owner = owner  # a reference to the struct alone keeps the memory as well
        self.pointer = ctypes.byref(self.struct)


def host_view(array: np.ndarray) -> View:
    """A float32 array of three axes, without a copy."""
    s = array.strides
    return View(array, array.__array_interface__["data"][0], array.shape,
                (s[0] // 4, s[1] // 4, s[2] // 4))


def usable(array: np.ndarray) -> bool:
    """Whether the library can use this array without a copy."""
    return array.dtype == _FLOAT and array.flags.aligned and not any(s % 4 for s in array.strides)


def to_float32(array: Any, what: str) -> np.ndarray:
    """The array itself if the library can use it, else a float32 copy."""
    if not isinstance(array, np.ndarray):
        if getattr(array, "requires_grad", False):
            raise _records(what)
        array = np.asarray(array)
    if array.dtype == _FLOAT and usable(array):
        return array
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what} {_has(what)} elements of type {array.dtype}; they must be real "
                        "numbers")
    return array.astype(_FLOAT, order="C")


def _expected(what: str, shape: tuple, wanted: tuple) -> ValueError:
    flat = math.prod(wanted)
    also = [tuple(n for i, n in enumerate(wanted) if i != axis) for axis in (0, 1)
            if wanted[axis] == 1]
    text = " or ".join(map(str, [wanted, *dict.fromkeys(also[:1]), (flat,)]))
    return ValueError(f"{what} {_has(what)} shape {tuple(shape)}; expected {text}")


def _has(what: str) -> str:
    return "have" if what == "the projections" else "has"


def fits(shape: tuple, wanted: tuple, flat_axis: int) -> bool:
    """Whether the shape is the one wanted, or that without `flat_axis`, or flat."""
    if len(shape) == 3:
        return tuple(shape) == wanted
    if len(shape) == 2:
        return wanted[flat_axis] == 1 and (
            tuple(shape) == wanted[:flat_axis] + wanted[flat_axis + 1:])
    return len(shape) == 1 and shape[0] == math.prod(wanted)


def read_view(array: Any, wanted: tuple, flat_axis: int, what: str) -> View:
    """An input of the library."""
    device = device_of(array)
    if device:
        return _device_view(_readable(array, what), device, wanted, flat_axis, what)
    array = to_float32(array, what)
    if array.shape == wanted:
        return host_view(array)
    if not fits(array.shape, wanted, flat_axis):
        raise _expected(what, array.shape, wanted)
    return host_view(array.reshape(wanted))


def write_view(array: Any, wanted: tuple, flat_axis: int, what: str) -> View:
    """A result of the library, in the memory given."""
    device = device_of(array)
    if device:
        return _device_view(array, device, wanted, flat_axis, what)
    shown = array if isinstance(array, np.ndarray) else np.asarray(array)
    if shown.dtype != _FLOAT or not usable(shown) or not shown.flags.writeable:
        only = "" if shown.flags.writeable else ", read-only"
        raise TypeError(f"{what} is written in place, so it must be float32 and writable, not "
                        f"{shown.dtype}{only}")
    if not fits(shown.shape, wanted, flat_axis):
        raise _expected(what, shown.shape, wanted)
    if shown.ndim != 3:
        view = shown.reshape(wanted)
        if not np.may_share_memory(view, shown):
            raise TypeError(f"{what} is written in place; its strides {shown.strides} do not allow "
                            "that")
        shown = view
    return host_view(shown)


def any_shape(array: Any, what: str) -> View:
    """An array of up to three axes; missing ones are added in front; the library checks it."""
    device = device_of(array)
    shape = tuple(array.shape) if device else np.shape(array)
    if len(shape) > 3:
        raise ValueError(f"{what} has {len(shape)} axes; it may have 3 at most")
    wanted = (1,) * (3 - len(shape)) + shape
    if device:
        return _device_view(array, device, wanted, 0, what)
    return host_view(to_float32(array, what).reshape(wanted))


def empty(like: Any, shape: tuple) -> Any:
    """An array for a result, of the same kind and on the same device as an input."""
    if isinstance(like, DeviceArray):
        return like.empty(shape)
    module = _module(like)
    if module == "torch":
        import torch
        return torch.empty(shape, dtype=torch.float32, device=like.device)
    if device_of(like):
        if module != "cupy":
            raise TypeError(f"results for a {type(like).__name__} on a GPU need `out=`")
        import cupy
        with like.device:
            return cupy.empty(shape, dtype=cupy.float32)
    return np.empty(shape, np.float32)


def assign(out: Any, values: Any, wanted: tuple, flat_axis: int, what: str) -> None:
    """Copies an array of any kind into a result."""
    values = values if hasattr(values, "shape") else np.asarray(values, _FLOAT)
    if not fits(tuple(values.shape), wanted, flat_axis):
        raise _expected(what, values.shape, wanted)
    if _module(values) != _module(out):
        values = np.ascontiguousarray(to_host(values), _FLOAT)
        if _module(out) == "torch":
            import torch
            values = torch.from_numpy(values).to(out.device)
        elif _module(out) == "cupy":
            import cupy
            values = cupy.asarray(values)
    out[...] = values.reshape(tuple(out.shape))


def to_host(array: Any) -> Any:
    """The array itself if it is on the host, else a copy there."""
    if not device_of(array):
        return array
    for copy in ("to_host", "cpu", "get", "copy_to_host"):  # tomos, PyTorch, CuPy, Numba
        if hasattr(array, copy):
            return getattr(array, copy)()
    raise TypeError(f"a {type(array).__name__} on a GPU: copy it to the host first")


def device_of(array: Any) -> int:
    """0 for the host, else the ordinal of the GPU plus 1."""
    if type(array) is np.ndarray:
        return 0
    if isinstance(array, DeviceArray):
        return array.device
    place = getattr(array, "__dlpack_device__", None)
    if place is not None:
        kind, ordinal = place()
        if kind in _DLPACK_HOST:
            return 0
        if kind not in _DLPACK_CUDA:
            raise TypeError(f"a {type(array).__name__} on a device of DLPack type {kind}, which is "
                            "not supported")
        return int(ordinal) + 1
    return 1 if hasattr(array, "__cuda_array_interface__") else 0


def _device_view(array: Any, device: int, wanted: tuple, flat_axis: int, what: str) -> View:
    shape, strides, address, kind = _device_memory(array)
    if kind != "<f4":
        raise TypeError(f"{what} on a GPU has elements of type {kind}; they must be float32")
    if not fits(shape, wanted, flat_axis):
        raise _expected(what, shape, wanted)
    if len(shape) == 2:
        strides = strides[:flat_axis] + (0,) + strides[flat_axis:]
    elif len(shape) == 1:
        s = strides[0]
        strides = (wanted[1] * wanted[2] * s, wanted[2] * s, s)
    # An axis of one element may have any stride; the library expects that of contiguous memory.
    packed = (wanted[1] * wanted[2], wanted[2], 1)
    strides = tuple(p if n == 1 else s for n, s, p in zip(wanted, strides, packed))
    return View(array, address, wanted, strides, device)


def _readable(array: Any, what: str) -> Any:
    """An input on a GPU: the array itself if it is contiguous float32, else a copy."""
    if getattr(array, "requires_grad", False):
        raise _records(what)
    module = _module(array)
    if module == "torch":
        import torch
        return array.to(torch.float32).contiguous()
    if module == "cupy":
        import cupy
        with array.device:
            return cupy.ascontiguousarray(array, cupy.float32)
    return array


def _module(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


def _records(what: str) -> TypeError:
    return TypeError(f"{what} is a tensor that requires gradients; use tomos.torch, or detach it")


def _device_memory(array: Any) -> tuple:
    """Shape, strides in elements, address and type; the library waits for queued GPU work."""
    if isinstance(array, DeviceArray):
        s = array._struct
        return array.shape, tuple(s.stride)[3 - array.ndim:], s.data, "<f4"
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        return _dlpack_memory(array)
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    if strides is None:
        strides = tuple(4 * math.prod(shape[i + 1:]) for i in range(len(shape)))
    return shape, tuple(s // 4 for s in strides), interface["data"][0], interface["typestr"]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.POINTER(_DLTensor)
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _dlpack_memory(array: Any) -> tuple:
    # The capsule is not consumed and releases its reference; the caller keeps the array alive.
    capsule = array.__dlpack__()
    tensor = _capsule_pointer(capsule, b"dltensor").contents
    shape = tuple(tensor.shape[:tensor.ndim])
    if tensor.strides:
        strides = tuple(tensor.strides[:tensor.ndim])
    else:
        strides = tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))
    kind = "<f4" if (tensor.code, tensor.bits, tensor.lanes) == (2, 32, 1) else (
        f"DLPack code {tensor.code} of {tensor.bits} bits")
    return shape, strides, (tensor.data or 0) + tensor.byte_offset, kind
