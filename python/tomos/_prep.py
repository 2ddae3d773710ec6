"""Preparation of measured data: from counts to line integrals."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ._arrays import Array, Numbers, any_shape, host_view, to_float32
from ._call import call, run
from ._device import open_backend
from ._geometry import Geometry
from ._html import table
from ._library import ArrayStruct, PrepReportStruct, Shape, SizedStruct, check, lib
from ._options import GROUPS, with_options


class PrepReport(PrepReportStruct):
    """Numbers of repaired values; pass one as `report=`, and every step adds to it.

    >>> report = tomos.PrepReport()
    >>> x = tomos.minus_log(np.array([[[1.0, -1.0]]]), report=report)
    >>> report
    <tomos.PrepReport repaired 0, raised 1, zingers 0, stripes 0, views 0>
    """

    def __repr__(self) -> str:
        return "<tomos.PrepReport " + ", ".join(
            f"{n} {getattr(self, n)}" for n, _ in PrepReportStruct._fields_) + ">"

    def _repr_html_(self) -> str:
        return table("Preparation", {n: getattr(self, n) for n, _ in PrepReportStruct._fields_})


class _Fields(SizedStruct):
    _fields_ = [("flats", ctypes.POINTER(ArrayStruct)), ("darks", ctypes.POINTER(ArrayStruct)),
                ("flat_views", ctypes.POINTER(ctypes.c_double)), ("first_view", ctypes.c_double)]


def _fields(flats: Optional[Array], darks: Optional[Array], flat_views: Optional[Numbers]):
    """The flat and dark fields of a call; None without flats."""
    if flats is None:
        return None
    f = _Fields()
    f.held = [any_shape(flats, "flats")]
    f.flats = ctypes.pointer(f.held[0].struct)
    count = f.held[0].struct.shape[0]
    if darks is not None:
        f.held.append(any_shape(darks, "darks"))
        f.darks = ctypes.pointer(f.held[1].struct)
    if flat_views is not None:
        places = np.ascontiguousarray(flat_views, float)
        if places.shape != (count,):
            raise ValueError(f"flat_views has shape {places.shape} for {count} flats")
        f.held.append(places)
        f.flat_views = places.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    return f


def _own(data: Array, out: Any) -> np.ndarray:
    """A copy of the data that a step may change: in `out`, or in a new array."""
    data = to_float32(data, "the data")
    if out is None:
        return np.array(data, np.float32, order="C", copy=True)
    if not isinstance(out, np.ndarray) or out.dtype != np.float32 or not out.flags.writeable:
        raise TypeError("out is written in place, so it must be a writable float32 array")
    if out.shape != data.shape:
        raise ValueError(f"out has shape {out.shape}, the data {data.shape}")
    if out is not data:
        out[...] = data
    return out


def _three(array: np.ndarray) -> Any:
    """The data with three axes; views of one row may be (views, columns)."""
    if not 2 <= array.ndim <= 3:
        raise ValueError(f"the data have {array.ndim} axes; views are (views, rows, columns), or "
                         "(views, columns) for one row")
    return host_view(array if array.ndim == 3 else array[:, None, :])


def _change(function: Any, data: Array, out: Any, options: dict, report: Any,
            *fields: Any) -> np.ndarray:
    result = _own(data, out)
    view = _three(result)
    settings = GROUPS["prep"].fill(**options)
    report = report if report is not None else PrepReport()
    call(function, view.pointer, *(f and ctypes.byref(f) for f in fields), ctypes.byref(settings),
         ctypes.byref(report), keep=(view, settings, report, fields))
    return result


def _normalize(counts: Array, flats: Array, darks: Optional[Array] = None, *,
               flat_views: Optional[Numbers] = None, out: Any = None,
               report: Optional[PrepReport] = None, **options: Any) -> np.ndarray:
    return _change(lib.prep_normalize, counts, out, options, report,
                   _fields(flats, darks, flat_views))


normalize = with_options(_normalize, GROUPS["prep"].pick(("flat_average", "drift", "floor")),
                         """Transmissions from counts: (counts - dark) / (flat - dark).

    `flats` and `darks` are images, (images, rows, columns). `flat_views` is the number of views
    before each flat. The result is a new array, or `out`, which may be the data.

    >>> counts = np.full((3, 2, 4), 60.0)
    >>> t = tomos.normalize(counts, flats=np.full((5, 2, 4), 110.0), darks=np.full((5, 2, 4), 10.0))
    >>> round(float(t[0, 0, 0]), 4)
    0.5
    """, "normalize")

# Name in Python: step of the library, options, defaults other than the table's, summary, example.
_STEPS = {
    "minus_log": ("log", ("floor",), {}, "Line integrals from transmissions: -log.",
                  ">>> round(float(tomos.minus_log(np.full((1, 1, 2), 0.5))[0, 0, 0]), 4)\n0.6931"),
    "remove_zingers": ("zingers", ("zingers", "zinger_level", "zinger_size"), {"zingers": "both"},
                       "Removes zingers, bright specks, from transmissions.",
                       ">>> t = np.full((9, 9, 9), 0.5)\n>>> t[4, 4, 4] = 5\n"
                       ">>> float(tomos.remove_zingers(t).max())\n0.5"),
    "remove_scatter": ("scatter", ("scatter",), {},
                       "Subtracts constant scatter, a fraction of the intensity without an object, "
                       "from transmissions.",
                       ">>> round(tomos.remove_scatter(np.full((1, 1, 1), 0.5), scatter=0.2).item(), "
                       "4)\n0.375"),
    "remove_rings": ("rings", ("rings", "ring_snr", "ring_large", "ring_small", "ring_wavelet",
                               "ring_levels", "ring_sigma", "ring_alpha"), {"rings": "vo"},
                     "Removes stripes from line integrals, which would become rings.",
                     ">>> p = np.ones((90, 1, 64))\n>>> p[:, :, 20] += 0.1\n"
                     ">>> bool(np.ptp(tomos.remove_rings(p)) < 0.05)\nTrue"),
    "shift_views": ("shift", ("shift_x", "shift_y", "shift_by"), {},
                    "Shifts misaligned views back.",
                    ">>> p = np.zeros((1, 1, 9))\n>>> p[0, 0, 5] = 1\n"
                    ">>> int(tomos.shift_views(p, shift_x=[1]).argmax())\n4"),
    "retrieve_phase": ("phase", ("phase", "pixel", "distance", "energy", "delta_beta"),
                       {"phase": "paganin"}, "Retrieves the phase after Paganin.",
                       '>>> p = np.ones((1, 16, 16))\n>>> r = tomos.retrieve_phase(p, pixel="1um", '
                       'distance="60mm", energy="20keV", delta_beta=1000)\n'
                       ">>> r.shape\n(1, 16, 16)"),
    "correct_hardening": ("hardening", ("hardening", "wedge"), {},
                          "Corrects beam hardening: p becomes A1 p + A2 p^2 + ...",
                          ">>> p = np.full((1, 1, 1), 2.0)\n"
                          ">>> tomos.correct_hardening(p, hardening=[1, 0.5]).item()\n4.0"),
    "interpolate_views": ("bad_views", ("bad_views",), {},
                          "Replaces bad views by interpolation between good ones.",
                          ">>> p = np.arange(3.0).reshape(3, 1, 1) ** 2\n"
                          ">>> tomos.interpolate_views(p, bad_views=[1])[1].item()\n2.0"),
}


def _step(name: str):
    step, names, defaults, summary, example = _STEPS[name]
    function = getattr(lib, "prep_" + step)
    rows = {n: row._replace(default=defaults.get(n, row.default))
            for n, row in GROUPS["prep"].pick(names).items()}

    def change(data: Array, *, out: Any = None, report: Optional[PrepReport] = None,
               **options: Any) -> np.ndarray:
        return _change(function, data, out, {**defaults, **options}, report)

    return with_options(change, rows, f"{summary}\n\nThe data are (views, rows, columns), or "
                        "(views, columns) for one row. The result is a new array, or `out`,\nwhich "
                        "may be the data.\n\n" + example, name)


STEPS = {name: _step(name) for name in _STEPS}


def bin_pixels(data: Array, bin: int) -> np.ndarray:
    """Averages of bin x bin pixels; incomplete groups at the end of rows and columns are dropped.

    >>> tomos.bin_pixels(np.ones((3, 5, 8)), 2).shape
    (3, 2, 4)
    """
    data = to_float32(data, "the data")
    source = _three(data)
    shape = _prepared_shape(GROUPS["prep"].fill(steps="bin", bin=bin), source.struct.shape)
    result = np.empty(shape, np.float32)
    target = host_view(result)
    call(lib.prep_bin, source.pointer, bin, target.pointer, keep=(source, target, result))
    return result


def _found(function: Any, data: Array, geometry: Geometry, backend: str, *result: Any) -> np.ndarray:
    view, quality = _three(to_float32(data, "the line integrals")), np.empty(2)
    call(function, *result, quality.ctypes.data, open_backend(backend), geometry._handle,
         view.pointer, keep=(view, quality, geometry))
    return quality


def find_hardening(data: Array, geometry: Geometry, count: int = 4,
                   backend: str = "auto") -> np.ndarray:
    """The coefficients A1, A2, ... for `correct_hardening` that make the object uniform, from line
    integrals, (views, rows, columns). The mean of the object is kept. An object of several
    materials, which none makes clearly more uniform, has 1, 0, ...

    >>> scan = tomos.parallel(views=90, columns=64)
    >>> p = tomos.Phantom("ball", radius=24, value=0.05).project(scan)
    >>> a = tomos.find_hardening(p - 0.1 * p**2, scan)
    >>> flat = tomos.correct_hardening(p - 0.1 * p**2, hardening=a)
    >>> bool(abs(flat / flat.max() - p / p.max()).max() < 0.02)
    True
    """
    found = np.zeros(count)
    _found(lib.hardening_find, data, geometry, backend, found.ctypes.data, count)
    return found


def find_scatter(data: Array, geometry: Geometry, backend: str = "auto") -> float:
    """The constant scatter, as a fraction of the intensity without an object, whose removal makes
    the object most uniform; from line integrals, (views, rows, columns).

    >>> scan = tomos.parallel(views=90, columns=64)
    >>> t = np.exp(-tomos.Phantom("ball", radius=24, value=0.05).project(scan))
    >>> abs(tomos.find_scatter(-np.log(0.95 * t + 0.05), scan) - 0.05) < 0.01
    True
    """
    found = ctypes.c_double()
    _found(lib.scatter_find, data, geometry, backend, ctypes.addressof(found))
    return found.value


def hardening_of_wedge(thickness: Numbers, integrals: Numbers, count: int = 3) -> np.ndarray:
    """The coefficients A1, A2, ... for `correct_hardening` that make the line integrals measured
    behind a step wedge proportional to its thickness.

    >>> t = np.array([1.0, 2, 4, 8])
    >>> a = tomos.hardening_of_wedge(t, 0.5 * t - 0.01 * t**2)
    >>> bool(a[0] == 1 and a[1] > 0)
    True
    """
    pairs = np.stack([np.asarray(thickness, float), np.asarray(integrals, float)], axis=-1)
    pairs, found = np.ascontiguousarray(pairs.reshape(-1)), np.zeros(count)
    check(lib.hardening_wedge(found.ctypes.data, count, pairs.ctypes.data, len(pairs)))
    return found


def hounsfield(volume: Array, water: float, air: float = 0.0) -> np.ndarray:
    """The volume in Hounsfield units, 1000 (x - water) / (water - air).

    >>> tomos.hounsfield(np.array([[[0.0, 0.02]]]), 0.02).tolist()
    [[[-1000.0, 0.0]]]
    """
    result = np.array(to_float32(volume, "the volume"), np.float32, order="C", copy=True)
    view = host_view(result.reshape((1,) * (3 - result.ndim) + result.shape))
    call(lib.hounsfield, view.pointer, float(water), float(air), keep=(view, result))
    return result


def _prepared_shape(settings: Any, shape: Sequence[int]) -> tuple:
    after = Shape()
    check(lib.prep_shape(ctypes.byref(settings), Shape(*shape), ctypes.byref(after)))
    return tuple(after)


def _prepare(data: Array, flats: Optional[Array] = None, darks: Optional[Array] = None, *,
             flat_views: Optional[Numbers] = None, geometry: Optional[Geometry] = None,
             report: Optional[PrepReport] = None, progress: bool = False, **options: Any) -> Any:
    values = _own(data, None)
    source = _three(values)
    facts = f"flats={int(flats is not None)} places={int(flat_views is not None)} shifts=0"
    settings = GROUPS["prep"].fill(facts=facts, **options)
    fields = _fields(flats, darks, flat_views)
    shape = _prepared_shape(settings, source.struct.shape)
    result = values if shape == tuple(source.struct.shape) else np.empty(shape, np.float32)
    target = _three(result)
    report = report if report is not None else PrepReport()
    run(lib.prepare, source.pointer, fields and ctypes.byref(fields), ctypes.byref(settings),
        target.pointer, ctypes.byref(report), show=progress,
        keep=(source, target, settings, fields, report))
    if geometry is None:
        return result
    handle = ctypes.c_void_p()
    check(lib.prep_geometry(ctypes.byref(handle), geometry._handle, ctypes.byref(settings)))
    return result, Geometry._of(handle.value, geometry._kind)


prepare = with_options(_prepare, GROUPS["prep"].rows, """Prepares a scan: the steps that the options
    select, in the order of `steps`.

    With `flats` the data are counts, without them line integrals, unless `quantity` is given. The
    result is the prepared data; with a `geometry`, also the geometry of these, which may have fewer
    views and larger pixels.

    >>> counts, flats = np.full((8, 2, 16), 50.0), np.full((1, 2, 16), 100.0)
    >>> scan = tomos.parallel(views=8, rows=2, columns=16)
    >>> p, scan = tomos.prepare(counts, flats, geometry=scan, bin=2, bad_views=[3], leave_out=True)
    >>> p.shape, scan.shape, round(float(p[0, 0, 0]), 4)
    ((7, 1, 8), (7, 1, 8), 0.6931)
    """, "prepare")
