"""libtomos through ctypes: its structs and functions, and its errors as exceptions."""
from __future__ import annotations

import ctypes
import os
from ctypes import (CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_float, c_int, c_int64,
                    c_size_t, c_uint64, c_void_p)
from pathlib import Path
from typing import Any

__all__ = ["BadFile", "BadValue", "CallbackFailed", "Cancelled", "DeviceMissing", "Diverged",
           "Error", "FileFailure", "OutOfMemory", "Unsupported"]


def _find() -> str:
    """The path in TOMOS_LIBRARY, else the library that is part of the package."""
    return os.environ.get("TOMOS_LIBRARY") or str(Path(__file__).parent / "lib" / "libtomos.so")


def _members(kind: Any, names: str) -> list[tuple[str, Any]]:
    """Members of a struct of one type, by their names."""
    return [(name, kind) for name in names.split()]


class SizedStruct(ctypes.Structure):
    """A struct that begins with its size, as tomos.h asks for."""
    _fields_ = [("bytes", c_size_t)]

    def __init__(self, *members: Any, **named: Any) -> None:
        super().__init__(ctypes.sizeof(self), *members, **named)


class CancelStruct(ctypes.Structure):
    _fields_ = [("raised", c_int)]


class Option(SizedStruct):
    """One row of options.def."""
    _fields_ = [("name", c_char_p), ("kind", c_int), *_members(c_char_p, "fallback values help"),
                *_members(c_size_t, "offset count_offset"), ("needs", c_char_p)]


class GridStruct(ctypes.Structure):
    _fields_ = [("n", c_int64 * 3), ("first", c_double * 3), ("step", c_double * 3)]


class ArrayStruct(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("shape", c_int64 * 3), ("stride", c_int64 * 3),
                ("device", c_int)]


APPLY = CFUNCTYPE(c_int, c_void_p, POINTER(ArrayStruct), POINTER(ArrayStruct))


class CustomStruct(SizedStruct):
    _fields_ = [("forward", APPLY), ("adjoint", APPLY), ("user", c_void_p), ("name", c_char_p)]


REPORT = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int64, c_int64, c_double)


class ProgressStruct(ctypes.Structure):
    _fields_ = [("report", REPORT), ("user", c_void_p)]


class HistoryStruct(SizedStruct):
    _fields_ = [*_members(POINTER(c_double), "residual error"),
                *_members(c_int64, "capacity count best"), ("ended", c_char_p),
                ("iterate", POINTER(ArrayStruct))]


class EllipsoidStruct(ctypes.Structure):
    _fields_ = [("centre", c_double * 3), ("axes", c_double * 3), ("euler", c_double * 3),
                ("value", c_double)]


class DifferenceStruct(SizedStruct):
    _fields_ = _members(c_double, "relative_l2 psnr ssim largest")


class FileInfoStruct(SizedStruct):
    _fields_ = [*_members(c_char_p, "format type dataset"), ("content", c_int),
                ("shape", c_int64 * 3), *_members(c_int, "has_grid has_geometry"),
                ("unpacked", c_int64), *_members(c_char_p, "length_unit value_unit")]


class ScanInfoStruct(SizedStruct):
    _fields_ = [*_members(c_char_p, "kind format type dataset"), ("counts", c_int),
                *_members(c_int64, "views rows columns flats darks"),
                *_members(c_int, "has_angles has_geometry has_places has_shifts half"),
                *_members(c_double, "pixel pixel_height distance energy")]


class AxisStruct(SizedStruct):
    _fields_ = [*_members(c_double, "column confidence"),
                *_members(c_int, "at_edge full_turn half"),
                *_members(c_double, "low high pairs vo sharpness error"), ("reversed", c_int64)]


class PoseStruct(SizedStruct):
    _fields_ = [*_members(c_double * 6, "value error"), *_members(c_double, "before after"),
                *_members(c_int64, "reversed beyond")]


class MatrixStruct(SizedStruct):
    _fields_ = [*_members(c_int64, "rows columns count"),
                *_members(c_int, "pointer_bytes index_bytes"),
                *_members(c_void_p, "pointers indices values")]


Shape = c_int64 * 3


class PrepReportStruct(SizedStruct):
    _fields_ = _members(c_int64, "repaired raised zingers stripes views")


class RunReportStruct(SizedStruct):
    _fields_ = [
        ("prep", PrepReportStruct), ("shape", Shape),
        *_members(c_int64, "slabs slices resumed"),
        *_members(c_double, "read_bytes written_bytes updates"),
        *_members(c_double, "read_seconds compute_seconds write_seconds seconds"),
        *_members(c_int64, "cut iterations before"), *_members(c_double, "residual error"),
        ("best", c_int64), ("ended", c_char_p), *_members(c_int, "complete compared"),
        ("difference", DifferenceStruct), *_members(c_char * 32, "forward back"),
        *_members(c_double, "planned_bytes start_seconds"),
        *_members(c_double * 6, "stage_seconds stage_bytes"), ("limiting", c_int64),
        ("expected_seconds", c_double), ("ranks", c_int64),
        *_members(c_double, "sent_bytes shared_bytes")]


SAY = CFUNCTYPE(None, c_void_p, c_int, c_char_p) # with the level of the line


class JobStruct(SizedStruct):
    _fields_ = [
        *_members(c_char_p, "scan output method backend"),
        *_members(c_void_p, "device source geometry views prep axis grid analytic file run"),
        *_members(c_char_p, "command recipe"), ("say", SAY), ("user", c_void_p),
        ("report", POINTER(RunReportStruct)), *_members(c_void_p, "algebraic projector stored"),
        *_members(c_char_p, "matrix start mask ray_weights truth compare"), ("axis_later", c_int64),
        ("comm", c_void_p), ("look", c_void_p)]


_P = c_void_p  # a handle, a pointer to an options struct, or NULL
_A = POINTER(ArrayStruct)
_G = POINTER(GridStruct)
_S = c_char_p
_I = c_int64
_PROGRESS = POINTER(ProgressStruct)
_NEW = POINTER(c_void_p)

# Name: result, arguments. A c_int result is a status, which the caller passes to `check`.
_FUNCTIONS = {
    "message": (_S, []),
    "comm_launched": (c_int, []),
    "comm_open": (c_int, [_NEW, _S, _P]),
    "comm_close": (None, [_P]),
    "version": (_S, []),
    "status_name": (_S, [c_int]),
    "cancel_on": (None, [POINTER(CancelStruct)]),
    "cancel_raise": (None, [POINTER(CancelStruct)]),
    "cancel_raised": (c_int, [POINTER(CancelStruct)]),
    "options": (POINTER(Option), [_S, POINTER(c_int)]),
    "option_unmet": (c_int, [POINTER(Option), c_int, _P, POINTER(c_uint64), _S]),
    "option_needs": (None, [POINTER(Option), c_int, c_char_p, c_size_t]),
    "name_nearest": (_S, [_S, _S]),
    "length_parse": (c_int, [_S, POINTER(c_double)]),
    "energy_parse": (c_int, [_S, POINTER(c_double)]),
    "size_parse": (c_int, [_S, POINTER(c_int64)]),
    "grid_centred": (c_int, [_G, _I, _I, _I, c_double]),
    "grid_for": (c_int, [_G, _P, _P]),
    "grid_check": (c_int, [_G]),
    "geometry_make": (c_int, [_NEW, _P]),
    "geometry_views": (c_int, [_NEW, _I, _I, _P, _I]),
    "geometry_vectors": (c_int, [_NEW, _I, _I, c_int, _P, _I]),
    "geometry_vectors_2d": (c_int, [_NEW, _I, c_int, _P, _I]),
    "geometry_read": (c_int, [_NEW, _S, _I, _I, c_int]),
    "geometry_write": (c_int, [_P, _S, _P]),
    "geometry_doubt": (c_int, [_P, POINTER(c_double), POINTER(c_double)]),
    "geometry_free": (None, [_P]),
    "geometry_count": (_I, [_P]),
    "geometry_rows": (_I, [_P]),
    "geometry_columns": (_I, [_P]),
    "geometry_list": (_P, [_P]),
    "geometry_cover": (c_int, [_P, POINTER(c_double), POINTER(c_double)]),
    "phantom_named": (c_int, [_NEW, _S, _P]),
    "phantom_ellipsoids": (c_int, [_NEW, POINTER(EllipsoidStruct), _I]),
    "phantom_free": (None, [_P]),
    "phantom_list": (POINTER(EllipsoidStruct), [_P, POINTER(_I)]),
    "phantom_names": (_S, []),
    "phantom_volume": (c_int, [_P, _G, _I, _A]),
    "phantom_project": (c_int, [_P, _P, _I, _A]),
    "noise_gaussian": (c_int, [_A, c_double, c_uint64]),
    "noise_poisson": (c_int, [_A, c_double, c_uint64]),
    "compare": (c_int, [_A, _A, POINTER(DifferenceStruct)]),
    "array_create": (c_int, [_A, _P, _I, _I, _I]),
    "array_destroy": (None, [_A, _P]),
    "array_copy": (c_int, [_P, _A, _A]),
    "array_check": (c_int, [_A, _S]),
    "file_open": (c_int, [_NEW, _S, _P]),
    "file_describe": (c_int, [_P, POINTER(FileInfoStruct)]),
    "file_read": (c_int, [_P, _I, _I, _P]),
    "file_read_box": (c_int, [_P, Shape, Shape, Shape, _P]),
    "file_grid": (c_int, [_P, _G]),
    "file_geometry": (c_int, [_P, _NEW]),
    "file_create": (c_int, [_NEW, _S, c_int, Shape, _P]),
    "file_set_grid": (c_int, [_P, _G]),
    "file_set_units": (c_int, [_P, _S, _S]),
    "file_set_geometry": (c_int, [_P, _P]),
    "file_write": (c_int, [_P, _I, _I, _P]),
    "file_commit": (c_int, [_P]),
    "file_close": (None, [_P]),
    "scan_open": (c_int, [_NEW, _S, _P]),
    "scan_close": (None, [_P]),
    "scan_describe": (c_int, [_P, POINTER(ScanInfoStruct)]),
    "scan_read": (c_int, [_P, c_int, _I, _I, _I, _I, _P]),
    "scan_angles": (c_int, [_P, _P]),
    "scan_places": (c_int, [_P, c_int, _P]),
    "scan_shifts": (c_int, [_P, _P, _P]),
    "scan_geometry": (c_int, [_P, _NEW, _P]),
    "scan_facts": (None, [_P, c_char_p, c_size_t]),
    "prep_normalize": (c_int, [_A, _P, _P, _P]),
    **{"prep_" + step: (c_int, [_A, _P, _P]) for step in
       ("bad_views", "zingers", "scatter", "log", "rings", "shift", "phase", "hardening")},
    "prep_bin": (c_int, [_A, _I, _A]),
    "hardening_wedge": (c_int, [_P, _I, _P, _I]),
    "hardening_find": (c_int, [_P, _I, _P, _P, _P, _A]),
    "scatter_find": (c_int, [_P, _P, _P, _P, _A]),
    "hounsfield": (c_int, [_A, c_double, c_double]),
    "prep_shape": (c_int, [_P, Shape, POINTER(Shape)]),
    "prep_geometry": (c_int, [_NEW, _P, _P]),
    "prepare": (c_int, [_A, _P, _P, _A, _P, _PROGRESS]),
    "backend_open": (c_int, [_NEW, _S]),
    "backend_open_with": (c_int, [_NEW, _S, _P]),
    "backend_close": (None, [_P]),
    "backend_describe": (_S, [_P]),
    "backend_names": (_S, []),
    "projector_names": (_S, []),
    "set_threads": (c_int, [c_int]),
    "threads": (c_int, []),
    "op_projector": (c_int, [_NEW, _P, _G, _P, _P]),
    "op_forward": (c_int, [_P, _A, _A]),
    "op_adjoint": (c_int, [_P, _A, _A]),
    "op_free": (None, [_P]),
    "op_matched": (c_int, [_P]),
    "op_describe": (_S, [_P]),
    "op_norm": (c_int, [_P, POINTER(c_double), _PROGRESS]),
    "op_sum": (c_int, [_NEW, c_double, _P, c_double, _P]),
    "op_product": (c_int, [_NEW, _P, _P]),
    "op_transpose": (c_int, [_NEW, _P]),
    "geometry_move": (c_int, [_NEW, _P, _P]),
    "op_poses": (c_int, [_NEW, _P, _A]),
    "pose_derivative": (c_int, [_P, _A, _I, _I, _A]),
    "align": (c_int, [_P, _G, _P, _A, _P, _P, _P, _PROGRESS]),
    "align_cut": (c_int, [_A]),
    "pose_change": (c_int, [_P, _I, _P]),
    "op_custom": (c_int, [_NEW, _P, Shape, Shape, POINTER(CustomStruct)]),
    "op_matrix_arrays": (c_int, [_NEW, _P, POINTER(MatrixStruct), Shape, Shape]),
    "op_matrix": (c_int, [_NEW, _P, _G, _P, _P, _P]),
    "matrix_arrays": (c_int, [_P, POINTER(MatrixStruct)]),
    "reconstruct": (c_int, [_P, _S, _A, _A, _P, _PROGRESS]),
    "method_names": (_S, []),
    "method_help": (_S, [_S]),
    "method_uses": (c_int, [_S, _S]),
    "fbp": (c_int, [_P, _G, _P, _A, _A, _P, _PROGRESS]),
    "fdk": (c_int, [_P, _G, _P, _A, _A, _P, _PROGRESS]),
    "axis_find": (c_int, [POINTER(AxisStruct), _P, _A, _P, _P, _PROGRESS]),
    "axis_doubt": (c_int, [POINTER(AxisStruct), *[POINTER(c_double)] * 3]),
    "pose_find": (c_int, [POINTER(PoseStruct), _NEW, _P, _A, _P, _P, _PROGRESS]),
    "pose_doubt": (c_int, [POINTER(PoseStruct)]),
    "fbp_transpose": (c_int, [_P, _G, _P, _A, _A, _P, _PROGRESS]),
    "run": (c_int, [POINTER(JobStruct), _PROGRESS]),
    "stage_names": (_S, []),
    "job_check": (c_int, [POINTER(JobStruct), _P, _S, POINTER(c_uint64)]),
    "job_output": (c_int, [_S, c_char_p, c_size_t]),
}


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        library = ctypes.CDLL(path)  # releases the interpreter lock during every call
    except OSError as failure:
        raise ImportError(f"tomos: the library {path!r} cannot be loaded: {failure}; reinstall the "
                          "package, or set TOMOS_LIBRARY to a libtomos.so") from None
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, "tomos_" + name, None)
        if function is None:
            raise ImportError(f"tomos: {path!r} is a library of another version, without tomos_"
                              f"{name}; reinstall the package, or set TOMOS_LIBRARY to another")
        function.restype, function.argtypes = result, arguments
        setattr(library, name, function)
    return library


lib = _load()


class Error(Exception):
    """An error of the library, with its message."""


class BadValue(Error, ValueError):
    """An argument is out of range, or contradicts another."""


class OutOfMemory(Error, MemoryError):
    """Not enough memory."""


class FileFailure(Error, OSError):
    """A file cannot be opened, read, written or renamed."""


class BadFile(Error, ValueError):
    """The content of a file is not valid."""


class Unsupported(Error, NotImplementedError):
    """The request is valid, but not supported, or not by this build."""


class DeviceMissing(Error, RuntimeError):
    """The device does not exist."""


class Cancelled(Error):
    """The call was cancelled."""


class Diverged(Error, ArithmeticError):
    """The residual of an iteration grew without bound, or became infinite or NaN."""


class CallbackFailed(Error, RuntimeError):
    """A function of a custom operator reported a failure."""


_EXCEPTIONS = [None, BadValue, OutOfMemory, FileFailure, BadFile, Unsupported, DeviceMissing,
               Cancelled, Diverged, CallbackFailed]


def check(status: int) -> None:
    """Raises the exception of a status other than 0, with the message of the last error."""
    if status:
        raise _EXCEPTIONS[status](lib.message().decode())


def new(constructor, *arguments) -> int:
    """The handle that a constructor of the library returns."""
    handle = c_void_p()
    check(constructor(ctypes.byref(handle), *arguments))
    return handle.value


def rows_of(table: Any, count: int) -> list:
    """The rows of a list of structs that begin with their size, which is also the stride."""
    start, stride = ctypes.addressof(table.contents), table.contents.bytes
    return [table._type_.from_address(start + i * stride) for i in range(count)]


def choices(text: bytes) -> tuple[str, ...]:
    """The names in "a|b|c"."""
    return tuple(text.decode().split("|"))
