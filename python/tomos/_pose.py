"""Search for the pose of the detector of a scan."""
from __future__ import annotations

import ctypes
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Union

from ._arrays import Array, read_view, to_host
from ._call import run
from ._device import open_backend
from ._geometry import Geometry
from ._html import table
from ._library import PoseStruct, c_void_p, lib
from ._options import GROUPS, with_options

# In the order of tomos_pose, as the options that set them.
_NAMES = ("axis", "axis_row", "roll", "slant", "swivel", "source_detector")
_ANGLES = ("roll", "slant", "swivel")
_DOUBTS = (  # as TOMOS_POSE_DISAGREES and what follows
    "", "rays measured from both sides hardly agree",
    "projections agree no better with what was found than before",
    "{} is further from the one given than the search reaches: give one nearer to it")


@dataclass(frozen=True)
class Pose:
    """The pose of the detector of a scan, as `tomos.find_pose` found it: values by the names of the
    options that set them (`tomos.cone`), columns and rows, radians, and the unit of the scan."""
    value: dict[str, float]  #: axis, axis_row, roll, slant, swivel, source_detector
    error: dict[str, float]  #: standard errors; 0: not looked for, nan: not determined, as given
                             #: (the axis: the likeliest one), inf: uncertain
    geometry: Geometry       #: the scan in that pose
    reversed: bool           #: the angles count against the direction of rotation
    before: float            #: by how much rays measured from both sides contradict each other,
                             #: relative to their values, with axis, swivel and distance fitted
    after: float             #: the same with all that was found
    doubt: str               #: why the values are uncertain; "": they are not

    def __repr__(self) -> str:
        return f"<tomos.Pose {', '.join(f'{n} {self._said(n)}' for n in _NAMES)}{self._note()}>"

    def _repr_html_(self) -> str:
        rows = {name.replace("_", " "): self._said(name) for name in _NAMES}
        return table("Pose", {**rows, "direction": "reversed" if self.reversed else "as given",
                              "contradiction": f"{self.after:.3g}, before {self.before:.3g}",
                              "uncertain": self.doubt or None})

    def _said(self, name: str) -> str:
        unit, word = (math.degrees(1), " degrees") if name in _ANGLES else (1, "")
        value, error = self.value[name] * unit, self.error[name] * unit
        value = value if abs(value) >= 1e-9 else 0.0  # rounding of the geometry as given, and no -0
        if 0 < error < math.inf:
            return f"{value:.6g}{word} +- {error:.2g}"
        uncertain = error != 0 and (name == "axis" or error == math.inf)
        return f"{value:.6g}{word} " + ("(uncertain)" if uncertain else "(as given)")

    def _note(self) -> str:
        return ", reversed" * self.reversed + ", uncertain" * bool(self.doubt)


def _doubt(struct: PoseStruct) -> str:
    beyond = [name for i, name in enumerate(_NAMES) if struct.beyond >> i & 1]
    return _DOUBTS[lib.pose_doubt(ctypes.byref(struct))].format(" and ".join(beyond))


def _find_pose(y: Array, scan: Geometry, *, unknown: Union[str, Iterable[str]] = "",
               backend: str = "auto", progress: bool = False, **options: Any) -> Pose:
    if not isinstance(scan, Geometry):
        raise TypeError(f"scan is a {type(scan).__name__}; find_pose needs a tomos.Geometry")
    view = read_view(to_host(y), tuple(scan.shape), 1, "the projections")
    names = unknown if isinstance(unknown, str) else ",".join(unknown) or "axis"
    settings = GROUPS["axis"].fill(facts="fit", unknown=names.replace("_", "-") or None, **options)
    found, fitted = PoseStruct(), c_void_p()
    run(lib.pose_find, ctypes.byref(found), ctypes.byref(fitted), open_backend(backend),
        view.pointer, scan._handle, ctypes.byref(settings), show=progress,
        keep=(found, fitted, view, scan, settings))
    pose = Pose(dict(zip(_NAMES, found.value)), dict(zip(_NAMES, found.error)),
                Geometry._of(fitted.value, "views"), bool(found.reversed), found.before,
                found.after, _doubt(found))
    if pose.doubt:
        warnings.warn(f"the pose is uncertain: {pose.doubt}", stacklevel=3)
    return pose


find_pose = with_options(_find_pose, GROUPS["axis"].rows, """Finds the pose of the detector of a fan or cone beam scan: rotation
    axis, row, roll, slant, swivel and distance from source to detector, and the direction of
    rotation, as `tomos center --fit` does for a file.

    `y` has line integrals (after -log), (views, rows, columns), and `scan` the geometry as it is
    known. `unknown` has the names of the values that are looked for besides the axis, such as
    ["roll", "axis_row"]; [] stands for the axis alone, the default for all of them.

    The result has values and their standard errors by name, and the geometry in that pose, for
    `tomos.Projector`, `tomos.fdk` or `tomos.run`; see `tomos.Pose`. A warning says so if the values
    are uncertain.

    >>> turn = dict(views=90, rows=32, columns=48, source_axis=150, source_detector=200)
    >>> balls = tomos.Phantom("random", radius=12).project(tomos.cone(axis=25, **turn))
    >>> pose = tomos.find_pose(balls, tomos.cone(**turn), unknown=["roll"])
    >>> abs(pose.value["axis"] - 25) < 0.1, pose.error["slant"], pose.reversed
    (True, 0.0, False)
    >>> volume = tomos.fdk(tomos.Projector(None, pose.geometry), balls)
    """, "find_pose")
