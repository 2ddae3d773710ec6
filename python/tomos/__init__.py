"""tomos: tomographic reconstruction.

    A = tomos.Projector(tomos.Grid(256), tomos.parallel(views=180, columns=256))
    y = A @ x                          # projections; A.T @ y is the exact adjoint
    x = tomos.fbp(A, y)                # also fdk, sirt, cgls, pdhg, ...: help(tomos.sirt)
    x = tomos.recon(tomo, theta)       # projections of a scan, as in TomoPy
    tomos.run("scan.h5", "volume.h5")  # from file to file, larger than memory

Volumes are (nz, ny, nx), projections (views, rows, columns), float32. Lengths are in one unit,
attenuation in 1/unit; angles are radians, or degrees with degrees=True.
"""
from ._align import align
from ._axis import Axis, find_center
from ._device import DeviceArray, empty, to_device
from ._files import Info, info, read, read_box, write
from ._geometry import (Geometry, Grid, cone, fan, helix, laminography, lebedev, parallel, vectors)
from ._library import (BadFile, BadValue, CallbackFailed, Cancelled, DeviceMissing, Diverged, Error,
                       FileFailure, OutOfMemory, Unsupported, lib as _lib)
from ._methods import METHODS as _METHODS, cover, fbp, fbp_transpose, fdk, recon
from ._operator import Operator
from ._options import History
from ._pose import Pose, find_pose
from ._prep import (PrepReport, STEPS as _STEPS, bin_pixels, find_hardening, find_scatter,
                    hardening_of_wedge, hounsfield, normalize, prepare)
from ._projector import Projector, backends, models, threads
from ._run import RunReport, run
from ._scan import Scan
from ._show import browse, show
from ._truth import (Difference, Ellipsoid, Phantom, add_counts, add_noise, compare, phantom,
                     phantoms)

globals().update(_METHODS, **_STEPS)


def __getattr__(name: str):
    """tomos.torch, imported at its first use as it needs PyTorch."""
    if name != "torch":
        raise AttributeError(f"module 'tomos' has no attribute {name!r}")
    from importlib import import_module
    return import_module("tomos.torch")


__version__: str = _lib.version().decode()
__all__ = [
    "Axis", "BadFile", "BadValue", "CallbackFailed", "Cancelled", "DeviceArray", "DeviceMissing",
    "Difference", "Diverged", "Ellipsoid", "Error", "FileFailure", "Geometry", "Grid", "History",
    "Info", "Operator", "OutOfMemory", "Phantom", "Pose", "PrepReport", "Projector", "RunReport", "Scan",
    "Unsupported", "add_counts", "add_noise", "align", "backends", "bin_pixels", "browse", "compare",
    "cone",
    "cover", "empty", "fan", "fbp", "fbp_transpose", "fdk", "find_center", "find_hardening",
    "find_pose", "find_scatter", "hardening_of_wedge", "helix", "hounsfield", "info", "laminography",
    "lebedev", "models", "normalize", "parallel", "phantom", "phantoms", "prepare", "read", "read_box",
    "recon", "run", "show", "threads", "to_device", "vectors", "write", *_METHODS, *_STEPS]
