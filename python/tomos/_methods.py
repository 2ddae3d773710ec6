"""Reconstruction: a function for each method, and `recon` with the interface of TomoPy."""
from __future__ import annotations

import ctypes
import inspect
import math
from collections.abc import Callable
from typing import Any, Optional, Union

import numpy as np

from ._arrays import Array, Numbers, assign, empty, read_view, write_view
from ._axis import found_for_recon, one_per_view, views_first
from ._call import run
from ._geometry import Geometry, Grid, check_radians, parallel
from ._library import HistoryStruct, Unsupported, check, choices, lib
from ._options import GROUPS, History, unknown_option, with_options
from ._operator import Composite, Operator, as_operator, like, own_failures
from ._projector import Projector

#: Called with (x, k, residual) after iteration k; a true result ends the iteration. x is the
#: current iterate, read-only; the next iteration overwrites it.
Callback = Callable[[Any, int, float], Any]


def _check_projector(A: Any, method: str) -> None:
    if not isinstance(A, Projector):
        raise TypeError(f"{method} works on a tomos.Projector, not on a {type(A).__name__}")


def _volume(A: Operator, b: Any, x0: Any, out: Any, flat: bool) -> Any:
    """The array of the result, filled with the start image; `flat`: b does not give its axes."""
    if out is None and x0 is not None and hasattr(x0, "shape") and flat:
        out = empty(b, tuple(x0.shape))
    if out is None:
        out = empty(b, like(1 if flat and A.domain[:2] == (1, 1) else b.ndim, A._source))
    if x0 is None:
        out[...] = 0
    elif np.ndim(x0) == 0 and not hasattr(x0, "shape"):
        raise TypeError(f"x0={x0!r}: the third argument is the image to start from; options are "
                        "keywords, iterations=50")
    else:
        assign(out, x0, A.domain, A._source.axis, "x0")
    return out


def _shown(x: Any) -> Any:
    """The volume as a read-only view for callbacks: the library may work on another copy."""
    if not isinstance(x, np.ndarray):
        return x
    view = x.view()
    view.flags.writeable = False
    return view


def _algebraic(given: Any, method: str, b: Array, x0: Any, out: Any, callback: Optional[Callback],
               progress: bool, options: dict) -> Any:
    b = b if hasattr(b, "shape") else np.asarray(b)
    A = as_operator(given, method, b, (x0, out, options.get("truth"), options.get("mask")))
    source = read_view(b, *A._target)
    out = _volume(A, b, x0, out, flat=A is not given)
    target = write_view(out, A.domain, A._source.axis, "out")
    history = options.pop("history", None)
    history = History() if history is None else history
    if not isinstance(history, History):
        raise TypeError(f"history is a tomos.History, not a {type(history).__name__}")
    for name, end in (("ray_weights", A._target), ("mask", A._source), ("truth", A._source)):
        if options.get(name) is not None:
            options[name] = read_view(options[name], end.shape, end.axis, name)
    iterations = options.get("iterations") or GROUPS["algebraic"].rows["iterations"].default
    valid = hasattr(iterations, "__index__") and iterations > 0  # else the library rejects it
    struct: HistoryStruct = history._prepare(iterations if valid else 0)
    struct.iterate = ctypes.pointer(target.struct) if callback else None
    settings = GROUPS["algebraic"].fill(facts=f"method={method}", history=history, **options)
    after = (lambda k, residual: callback(_shown(out), k, residual)) if callback else None
    try:
        with own_failures(A):
            run(lib.reconstruct, A._op, method.encode(), source.pointer, target.pointer,
                ctypes.byref(settings), show=progress, callback=after, of=method,
                keep=(A, settings, source, target))
    except Unsupported as failure:
        if isinstance(A, Composite):
            failure.args = (f"{method}: {failure}; sums and products of operators go with methods "
                            "that only apply them, such as sirt, cgls, fista and pdhg",)
        raise
    finally:
        history._finish()
    return out


def _method(method: str):
    name = method.replace("-", "_")
    rows = {row.name: row for row in GROUPS["algebraic"].rows.values()
            if lib.method_uses(method.encode(), row.name.encode())}

    def solve(A: Any, b: Array, x0: Optional[Array] = None, *, out: Any = None,
              callback: Optional[Callback] = None, progress: bool = False, **options: Any) -> Any:
        return _algebraic(A, method, b, x0, out, callback, progress, options)

    summary = lib.method_help(method.encode()).decode()
    settings = "iterations=100, noise_level=0.01" if method == "asd-pocs" else "iterations=10"
    return with_options(solve, rows, f"""{summary[0].upper() + summary[1:]}.

    `A` is a Projector or another Operator, a sparse matrix of SciPy or a LinearOperator; matrices
    and LinearOperators have no axes, which are taken from `b` and from `x0` or `out`.

    The iteration starts from `x0` (default: zero; one for methods that multiply), and the result is
    the volume, in `out` if that is given. `callback(x, k, residual)` is called after each
    iteration, and a true result ends the iteration; `x` is read-only and overwritten by the next
    one, so copy it to keep it. `progress` shows a bar.

    >>> A = tomos.Projector(None, tomos.parallel(views=24, columns=16))
    >>> truth = tomos.phantom("shepp-logan-2d-modified", A.grid)
    >>> b = A @ truth
    >>> x = tomos.{name}(A, b, {settings})
    >>> tomos.compare(b, A @ x).relative_l2 < 0.3
    True
    """.replace("--", ""), name)


METHODS = {method.replace("-", "_"): _method(method) for method in choices(lib.method_names())}


_ANALYTIC = {
    "fbp": ("Filtered back projection of parallel and fan beams; FDK for a circular cone beam.",
            "tomos.parallel(views=90, columns=64)"),
    "fdk": ("Reconstruction of a circular cone-beam scan after Feldkamp, Davis and Kress.",
            "tomos.cone(views=90, rows=8, columns=64, source_axis=300, source_detector=400)"),
}


def _linear(function, A: Projector, x: Any, out: Any, forward: bool, progress: bool,
            options: dict) -> Any:
    """Maps projections to a volume, or, with `forward`, a volume to projections."""
    _check_projector(A, "filtered back projection")
    start, end = (A._source, A._target) if forward else (A._target, A._source)
    x = x if hasattr(x, "shape") else np.asarray(x)
    source = read_view(x, *start)
    if out is None:
        out = empty(x, like(x.ndim, end))
    target = write_view(out, end.shape, end.axis, "out")
    common = {name: value for name, value in A.options.items() if name in GROUPS["analytic"].rows}
    settings = GROUPS["analytic"].fill(**{**common, **options})
    run(function, A._backend, ctypes.byref(A.grid._struct), A.geometry._handle, source.pointer,
        target.pointer, ctypes.byref(settings), show=progress,
        keep=(A, settings, source, target))
    return out


def _analytic(name: str):
    function = getattr(lib, name)

    def reconstruct(A: Projector, b: Array, *, out: Any = None, progress: bool = False,
                    **options: Any) -> Any:
        return _linear(function, A, b, out, False, progress, options)

    summary, scan = _ANALYTIC[name]
    return with_options(reconstruct, GROUPS["analytic"].rows, f"""{summary}

    `A` has the grid, the geometry and the backend; what it has of the options below (`plain`,
    `data`) is their default.

    >>> A = tomos.Projector(None, {scan})
    >>> ball = tomos.Phantom("ball", radius=20, value=0.02)
    >>> x = tomos.{name}(A, ball.project(A.geometry))
    >>> round(float(x[x.shape[0] // 2, 32, 32]), 3)
    0.02
    """, name)


ANALYTIC = {name: _analytic(name) for name in _ANALYTIC}
fbp, fdk = ANALYTIC["fbp"], ANALYTIC["fdk"]


def _fbp_transpose(A: Projector, x: Array, *, out: Any = None, progress: bool = False,
                   **options: Any) -> Any:
    return _linear(lib.fbp_transpose, A, x, out, True, progress, options)


fbp_transpose = with_options(_fbp_transpose, GROUPS["analytic"].rows,
                             """The transpose of `fbp`, from volumes to projections, for gradients.

    >>> A = tomos.Projector(None, tomos.parallel(views=90, columns=64))
    >>> x, y = np.ones(A.domain), np.ones(A.range)
    >>> left, right = np.vdot(tomos.fbp(A, y), x), np.vdot(y, tomos.fbp_transpose(A, x))
    >>> bool(np.isclose(left, right, rtol=1e-4))
    True
    """, "fbp_transpose")

# Names of TomoPy.
_ALGORITHMS = {"gridrec": "fbp", "bart": "block", "asd-pocs": "asd_pocs"}
_NAMES = {"num_iter": "iterations", "filter_name": "filter", "num_block": "blocks"}
_FILTERS = {"shepp": "shepp-logan", "ramlak": "ram-lak"}


def recon(tomo: Array, theta: Optional[Numbers] = None,
          center: Union[None, float, Numbers] = None, sinogram_order: bool = False,
          method: str = "fbp", *, algorithm: Optional[str] = None,
          degrees: Optional[bool] = None, pixel: float = 1.0, geometry: Optional[Geometry] = None,
          grid: Optional[Grid] = None, init_recon: Optional[Array] = None, model: str = "joseph",
          backend: str = "auto", ncore: Optional[int] = None, nchunk: Optional[int] = None,
          num_gridx: Optional[int] = None, num_gridy: Optional[int] = None, out: Any = None,
          callback: Optional[Callback] = None, progress: bool = False, **options: Any) -> Any:
    """Reconstructs the projections of a scan; takes the arguments of TomoPy's `recon`.

    `tomo` has line integrals (after -log), (views, rows, columns), or (rows, views, columns) with
    `sinogram_order`; or one sinogram, (views, columns). `theta` is in radians, in degrees with
    `degrees`. `center` is the column of the rotation axis, counted from the centre of the first
    pixel, one or one per view; by default `find_center` finds it, with a warning if it is
    uncertain. `method` (or TomoPy's `algorithm`) is "fbp" (or "gridrec"), "fdk" or an iterative
    method ("sirt", "cgls", "mlem", ...); options are those of the function of that name, and
    TomoPy's num_iter, filter_name, num_block, num_gridx and num_gridy. A `geometry` replaces theta
    and center, for scans of any kind. See `tomos.run` for scans in files.

    The result is (slices, ny, nx), or (ny, nx) for one sinogram: attenuation per unit of `pixel`.

    >>> theta = np.linspace(0, np.pi, 90, endpoint=False)
    >>> disc = tomos.Phantom("ball", radius=20, value=0.02)
    >>> tomo = disc.project(tomos.parallel(theta, columns=64))
    >>> rec = tomos.recon(tomo, theta, center=31.5, algorithm="sirt", num_iter=30)
    >>> rec.shape, round(float(rec[0, 32, 32]), 3)
    ((1, 64, 64), 0.02)
    """
    method = algorithm or method
    method = _ALGORITHMS.get(method, method)
    if method not in ANALYTIC and method not in METHODS:
        raise ValueError(f"method {method!r} is not known; there are "
                         f"{', '.join([*ANALYTIC, *METHODS])}")
    options = {_NAMES.get(name, name): value for name, value in options.items()}
    if "filter" in options:
        options["filter"] = _FILTERS.get(options["filter"], options["filter"])
    known = inspect.signature(METHODS.get(method, fbp)).parameters
    for name in options:
        if name not in known:
            raise unknown_option(f"tomos.recon with {method}", name, [*_RECON, *known])
    if geometry is None and theta is None:
        raise TypeError("recon needs theta, the angle of each view, or a geometry")
    if geometry is not None and not (theta is None and center is None):
        raise TypeError("theta and center are part of the geometry; give one or the other")
    if geometry is not None and not isinstance(geometry, Geometry):
        raise TypeError(f"geometry is a tomos.Geometry, not a {type(geometry).__name__}")
    tomo = views_first(tomo, sinogram_order)
    if geometry is None:
        geometry = _scan_of(tomo, theta, center, degrees, pixel, backend)
    if grid is None:
        grid = _grid_of(geometry, num_gridx, num_gridy)
    if ncore is not None:
        check(lib.set_threads(ncore))
    A = Projector(grid, geometry, model, backend)
    if method in ANALYTIC:
        if callback is not None or init_recon is not None:
            raise TypeError(f"{method} takes neither callback nor init_recon: it does not iterate")
        return ANALYTIC[method](A, tomo, out=out, progress=progress, **options)
    return METHODS[method](A, tomo, init_recon, out=out, callback=callback, progress=progress,
                           **options)


_RECON = [p.name for p in inspect.signature(recon).parameters.values()
          if p.kind is not p.VAR_KEYWORD]


def _scan_of(tomo: Any, theta: Any, center: Any, degrees: Optional[bool], pixel: float,
             backend: str) -> Geometry:
    theta = one_per_view(theta, tomo)
    check_radians(theta, degrees, "theta")
    if center is None:
        center = found_for_recon(tomo, theta, degrees, backend)
    rows = tomo.shape[1] if tomo.ndim == 3 else 1
    return parallel(theta, degrees=degrees, rows=rows, columns=tomo.shape[-1], axis=center,
                    pixel=pixel)


def _grid_of(geometry: Geometry, nx: Optional[int], ny: Optional[int]) -> Grid:
    grid = geometry.grid()
    if nx is None and ny is None:
        return grid
    nz, old_y, old_x = grid.shape
    dx, dy, dz = map(abs, grid.step)
    return Grid((nz, ny or nx or old_y, nx or old_x), (dx, dy, dz), grid.centre)


def cover(geometry: Geometry) -> tuple[float, float]:
    """The angle that the views of a circular scan cover and the one that `fbp` needs, in radians.

    >>> covered, needed = tomos.cover(tomos.parallel(views=90, columns=64))
    >>> np.degrees([covered, needed]).round().tolist()
    [180.0, 180.0]
    """
    covered, needed = ctypes.c_double(math.nan), ctypes.c_double(math.nan)
    check(lib.geometry_cover(geometry._handle, ctypes.byref(covered), ctypes.byref(needed)))
    return covered.value, needed.value
