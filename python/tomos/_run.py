"""From file to file: one call reads, prepares, reconstructs and writes a scan."""
from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional, Union

from ._call import Bar, Report, call
from ._geometry import Geometry, check_radians
from ._library import SAY, BadValue, Error, JobStruct, RunReportStruct, choices, lib
from ._options import GROUPS, Row, with_options
from ._prep import PrepReport
from ._scan import Scan

_Path = Union[str, os.PathLike]
_Range = Union[str, slice]

# The groups of a job, with their headings in help(tomos.run). As on the command line, an option whose name is in
# several groups is meant for each of them.
_JOB: dict[str, tuple[str, dict[str, Row]]] = {
    "run": ("Run", GROUPS["run"].rows),
    "analytic": ("Filtered back projection (fbp, fdk)", GROUPS["analytic"].rows),
    "algebraic": ("Iterative methods", GROUPS["algebraic"].rows),
    "projector": ("Projector of iterative methods", GROUPS["projector"].rows),
    "grid": ("Grid", GROUPS["grid"].rows),
    "scan": ("Geometry, where the file has none", GROUPS["scan"].but("rows", "columns", "views", "start")),
    "axis": ("Rotation axis, where it is not known", GROUPS["axis"].rows),
    "source": ("Scan file", GROUPS["source"].rows),
    "prep": ("Preparation", GROUPS["prep"].rows),
    "file": ("Output", GROUPS["file"].rows),
    "device": ("Device", GROUPS["device"].rows),
}
_ANALYTIC, _ITERATIVE = ("analytic",), ("algebraic", "projector")  # groups that only these methods use
_MEMBERS = {"scan": "geometry"}  # where the member of tomos_job has another name than its group
_ANALYTIC_METHODS = ("fbp", "fdk")


@dataclass(frozen=True)
class RunReport:
    """What `tomos.run` did, or, with `dry_run`, what it would do."""
    output: str                      #: the file or folder of the volume
    shape: tuple[int, int, int]      #: of the volume, (nz, ny, nx)
    slabs: int                       #: parts the volume was reconstructed in
    slices: int                      #: slices this run reconstructed; 0 of a dry run
    resumed: int                     #: slices that an earlier run had done
    seconds: float                   #: of the whole run; its stages below overlap
    read_seconds: float
    compute_seconds: float
    write_seconds: float
    read_bytes: float
    written_bytes: float
    updates: float                   #: voxels times views
    clipped: int                     #: values outside the window of 8 or 16 bits
    prep: PrepReport                 #: what preparation repaired
    lines: tuple[str, ...]           #: what the run reported: scan, axis, method, volume, plan

    def __repr__(self) -> str:
        done = f"{self.slices} slices in {self.slabs} slabs" + (f" and {self.resumed} resumed" if self.resumed else "")
        return f"<tomos.RunReport {self.output!r}: {' x '.join(map(str, self.shape))}, {done}, {self.seconds:.3g} s>"


class _Lines:
    """What a run reports: warnings become Python's, other lines are printed where that is asked for."""

    def __init__(self, verbose: bool) -> None:
        self.lines: list[str] = []
        self.verbose, self.shown = verbose, 0

    def add(self, _: Any, line: bytes) -> None:
        self.lines.append(line.decode(errors="replace"))

    def show(self) -> None:
        """In the caller's thread, where a warning may be an exception."""
        while self.shown < len(self.lines):
            line = self.lines[self.shown]
            self.shown += 1
            if line.startswith("warning: "):
                warnings.warn(line.removeprefix("warning: "), stacklevel=_level())
            elif self.verbose:
                print(line, flush=True)


def _level() -> int:
    """The level of the frame that called the package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "tomos":
        level, frame = level + 1, frame.f_back
    return level


def _range(value: Optional[_Range], name: str) -> Optional[str]:
    """"FIRST:END" of a slice."""
    if not isinstance(value, slice):
        return value
    if value.step not in (None, 1):
        raise ValueError(f"{name} are used with step 1, not {value.step}")
    return ":".join("" if end is None else str(end) for end in (value.start, value.stop))


def _has_effect(group: str, name: str, method: str) -> bool:
    """Whether the method uses the rows of the group, and this one of them."""
    iterative = method not in _ANALYTIC_METHODS
    if group == "algebraic":
        return iterative and bool(lib.method_uses(method.encode(), name.encode()))
    return iterative if group in _ITERATIVE else not iterative or group not in _ANALYTIC


def _sort(method: str, options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The options by group; one that has no effect in any of its groups is rejected."""
    values: dict[str, dict[str, Any]] = {group: {} for group in _JOB}
    for name, value in options.items():
        if value is None or value is False:
            continue
        used = [group for group, (_, rows) in _JOB.items() if name in rows and _has_effect(group, name, method)]
        if not used:
            raise BadValue(f"{name} has no effect with method {method}")
        for group in used:
            values[group][name] = value
    return values


def _fill(values: dict[str, dict[str, Any]], facts: str, degrees: Optional[bool]) -> dict[str, ctypes.Structure]:
    """The structs of the groups. An option may lack what it needs in one group if it has an effect in another."""
    filled = {group: GROUPS[group].fill_unchecked(degrees, facts, **own) for group, own in values.items()}
    for group, (_, unmet) in filled.items():
        for name in unmet:
            homes = [other for other, own in values.items() if name in own]
            if all(name in filled[home][1] for home in homes):
                needs = " or ".join(GROUPS[home].needs(name) for home in homes)
                raise BadValue(f"{name} has no effect without {needs}")
        if unmet:
            met = {name: value for name, value in values[group].items() if name not in unmet}
            filled[group] = GROUPS[group].fill_unchecked(degrees, facts, **met)[0], unmet
    return {group: struct for group, (struct, _) in filled.items()}


def _check_scan(scan: _Path, values: dict[str, dict[str, Any]], views: bool) -> None:
    """Rejects options that contradict what the scan has, or have no effect for lack of it."""
    if not any(values[group] for group in ("scan", "axis", "prep")):
        return
    info = Scan(scan, **values["source"])._info
    phase = values["prep"] if values["prep"].get("phase", "none") != "none" else {}  # which needs a pixel
    own = "the views are those of `geometry`" if views else (
        f"{os.fspath(scan)!r} has a geometry of its own" if info.has_geometry else "")
    kind = values["scan"].get("geometry", "parallel")
    if own:
        _no_effect(values["scan"].keys() - phase.keys(), own)
    if own or "axis" in values["scan"] or kind != "parallel":
        _no_effect(values["axis"], own or ("`axis` is given" if "axis" in values["scan"] else
                                           f"the axis of a {kind} scan is not searched for"))
    facts = f"flats={info.flats} places={info.has_places} shifts={info.has_shifts}"
    GROUPS["prep"].fill(facts=facts, **values["prep"])


def _no_effect(names: Iterable[str], why: str) -> None:
    for name in sorted(names):
        raise BadValue(f"{name} has no effect: {why}")


def _method(method: Optional[str]) -> str:
    """The name as the library has it: asd_pocs is asd-pocs; "": chosen from the geometry."""
    known = (*_ANALYTIC_METHODS, *choices(lib.method_names()))
    name = (method or "").replace("_", "-")
    if name and name not in known:
        near = lib.name_nearest("|".join(known).encode(), name.encode())
        hint = f"did you mean {near.decode()!r}?" if near else f"there are {', '.join(known)}"
        raise BadValue(f"method {method!r} is not known; {hint}")
    return name


def _output(scan: _Path, output: Optional[_Path]) -> str:
    """The file or folder to write; by default the folder SCAN_rec beside the scan."""
    return os.fspath(output) if output else os.path.splitext(os.fspath(scan).rstrip("/"))[0] + "_rec/"


def _report(struct: RunReportStruct, output: str, lines: Iterable[str]) -> RunReport:
    prep = PrepReport.from_buffer_copy(struct.prep)
    numbers = {name: getattr(struct, name) for name in (
        "slabs", "slices", "resumed", "seconds", "read_seconds", "compute_seconds", "write_seconds",
        "read_bytes", "written_bytes", "updates")}
    return RunReport(output=output, shape=tuple(struct.shape), clipped=struct.cut, prep=prep, lines=tuple(lines),
                     **numbers)


def _call(job: JobStruct, lines: _Lines, progress: Union[bool, Report], keep: Any) -> None:
    """Runs the job; lines, progress and the caller's function are handled in the caller's thread."""
    bar = Bar() if progress is True else None
    watch = bar or progress or None

    def report(*step: Any) -> Any:
        lines.show()
        return watch(*step) if watch else False

    try:
        call(lib.run, ctypes.byref(job), progress=True, report=report, keep=(job, keep), wait=True)
    except BaseException as failure:
        _say_kept(failure, job.report.contents)
        raise
    finally:
        if bar:
            bar.close()
    lines.show()


def _say_kept(failure: BaseException, report: RunReportStruct) -> None:
    """Adds to an exception that what was done can be resumed."""
    if report.slices + report.resumed == 0:
        return
    kept = "what was done is kept, and resume=True continues from there"
    if isinstance(failure, Error):
        failure.args = (f"{failure}; {kept}",)
    elif hasattr(failure, "add_note"):  # Python 3.11
        failure.add_note(kept)


def _run(scan: _Path, output: Optional[_Path] = None, method: Optional[str] = None, *,
         geometry: Union[None, str, Geometry] = None, degrees: Optional[bool] = None,
         rows: Optional[_Range] = None, columns: Optional[_Range] = None, backend: str = "auto",
         progress: Union[bool, Report] = False, verbose: bool = False, **options: Any) -> RunReport:
    if not isinstance(backend, str):
        raise TypeError(f"a backend is a name (there are {lib.backend_names().decode()}), not {backend!r}")
    if not (isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress is True, False or a function, not {progress!r}")
    name, path = _method(method), _output(scan, output)
    views = geometry if isinstance(geometry, Geometry) else None
    options.update(rows=_range(rows, "rows"), columns=_range(columns, "columns"),
                   geometry=None if views else geometry)
    check_radians(options.get("angles"), degrees)
    check_radians(options.get("arc"), degrees, "arc")
    values = _sort(name or "fbp", options)
    structs = _fill(values, f"method={name or 'fbp'}", degrees)
    _check_scan(scan, values, views is not None)
    if "pixel" not in values["scan"]:
        structs["scan"].pixel = 0  # as the file says
    if backend.startswith("cpu"):
        structs["device"].memory = 0  # of other devices
    lines, struct = _Lines(verbose), RunReportStruct()
    job = JobStruct(bytes=ctypes.sizeof(JobStruct), scan=os.fsencode(scan), output=os.fsencode(path),
                    method=name.encode(), backend=backend.encode(), views=views._handle if views else None,
                    say=SAY(lines.add), report=ctypes.pointer(struct))
    for group, options_struct in structs.items():
        setattr(job, _MEMBERS.get(group, group), ctypes.addressof(options_struct))
    _call(job, lines, progress, keep=(structs, views))
    return _report(struct, path, lines.lines)


def _sections() -> dict[str, dict[str, Row]]:
    """The rows under their headings, each name once."""
    seen: set[str] = set()
    sections = {}
    for title, rows in _JOB.values():
        sections[title] = {name: row for name, row in rows.items() if name not in seen}
        seen.update(rows)
    return sections


_ROWS = {name: row for part in _sections().values() for name, row in part.items()}
run = with_options(_run, _ROWS, """Reconstructs a scan, from file to file.

    Reads `scan` (a file, a folder of TIFF files, as `tomos.Scan`), prepares it (flat fields, -log, rings, ...: the
    options of `tomos.prepare`), reconstructs it with `method` and writes `output`, slab by slab, within `memory`. The
    default of `method` is fdk for a cone beam, else fbp; of `output` the folder SCAN_rec of TIFF files beside the
    scan. It is what the command `tomos recon` does, with the same options under the same names; see also
    `tomos.recon` for arrays.

    `geometry` is a tomos.Geometry, or its kind where the file has none: "parallel", "fan", "cone", ... Angles are in
    radians unless `degrees` is true. `rows` and `columns` are slices, or texts like "200:400". `progress` True shows a
    bar; a function is called with (stage, done, total, value), and stops the run with a true result or an exception.
    A stopped run, by Ctrl-C as well, keeps what is done, and the same call with `resume=True` continues it.
    `verbose` prints what the run reports, which is in the `lines` of the result as well; its warnings are Python's.
    `backend` is one of `tomos.backends()`.

    The result is a RunReport. `dry_run=True` gives it without a reconstruction: shape, slabs, and in its
    `lines` the memory and time.

    >>> scan = tomos.parallel(views=90, rows=4, columns=64)
    >>> ball = tomos.Phantom("ball", radius=20, value=0.02)
    >>> tomos.write("scan.h5", ball.project(scan), geometry=scan)
    >>> report = tomos.run("scan.h5", "volume.h5", filter="hann")
    >>> report.shape, report.slices
    ((4, 64, 64), 4)
    >>> round(float(tomos.read(report.output)[2, 32, 32]), 3)
    0.02
    """, "run", _sections())
