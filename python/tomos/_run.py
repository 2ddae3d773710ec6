"""From file to file: one call reads, prepares, reconstructs and writes a scan."""
from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np

from ._arrays import Array
from ._call import Bar, Report, call
from ._files import write
from ._geometry import Geometry, check_radians
from ._html import size, table, times
from ._library import SAY, BadValue, Cancelled, Error, JobStruct, RunReportStruct, check, lib
from ._methods import ANALYTIC, METHODS
from ._options import GROUPS, Row, with_options
from ._prep import PrepReport
from ._ranks import communicator
from ._scan import Scan
from ._truth import Difference

_Path = Union[str, os.PathLike]
_Range = Union[str, slice]
_Volume = Union[_Path, Array]

# The groups of a job, with their headings in help(tomos.run). As on the command line, an option
# whose name is in several groups is meant for each of them.
_JOB: dict[str, tuple[str, dict[str, Row]]] = {
    "run": ("Run", GROUPS["run"].rows),
    "analytic": ("Filtered back projection (fbp, fdk)", GROUPS["analytic"].rows),
    "algebraic": ("Iterative methods", GROUPS["algebraic"].but("resume", "history")),
    "projector": ("Projector of iterative methods", GROUPS["projector"].rows),
    "grid": ("Grid", GROUPS["grid"].rows),
    "scan": ("Geometry, where the file has none",
             GROUPS["scan"].but("rows", "columns", "views", "start")),
    "axis": ("Rotation axis, where it is not known", GROUPS["axis"].but("unknown")),
    "source": ("Scan file", GROUPS["source"].rows),
    "prep": ("Preparation", GROUPS["prep"].rows),
    "file": ("Output", GROUPS["file"].rows),
    "device": ("Device", GROUPS["device"].rows),
}
_MEMBERS = {"scan": "geometry"}  # where the member of tomos_job has another name than its group
_ITERATIVE = ("algebraic", "projector")  # groups that only iterative methods use


@dataclass(frozen=True)
class RunReport:
    """What `tomos.run` did; after a dry run, what it would do."""
    output: str                    #: the file or folder of the volume
    shape: tuple[int, int, int]    #: of the volume, (nz, ny, nx)
    slabs: int                     #: parts that this run reconstructed, or a dry run planned
    slices: int                    #: slices that this run reconstructed; 0 after a dry run
    resumed: int                   #: slices that an earlier run had finished
    complete: bool                 #: whether the output was written
    planned_bytes: float           #: memory of the plan
    seconds: float                 #: duration of the run; its stages overlap
    read_seconds: float
    compute_seconds: float
    write_seconds: float
    read_bytes: float
    written_bytes: float
    updates: float                 #: voxels times views
    clipped: int                   #: values outside the window of 8 or 16 bits
    iterations: int                #: of iterative methods, the most of any slab; else 0
    residual: float                #: ||A x - b|| / ||b|| at the end; nan: not iterative
    error: float                   #: ||x - truth|| / ||truth|| at the end; nan: no truth
    best: int                      #: iteration of the least error, from 1; 0: no truth
    ended: str                     #: the stop rule that ended the iteration, or "cancelled"
    difference: Optional[Difference]  #: of the volume from `compare`
    kernels: tuple[str, str]       #: optimised kernels, forward and back; "": reference, or none
    start_seconds: float           #: before the first stage: files, axis, device
    stages: dict[str, tuple[float, float]]  #: busy time in seconds and bytes of each stage
    limiting: str                  #: the stage that was busy for the longest time
    prep: PrepReport               #: what preparation repaired
    lines: tuple[str, ...]         #: messages of the run: scan, axis, method, volume, plan

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        resumed = f" and {self.resumed} resumed" if self.resumed else ""
        return (f"<tomos.RunReport {self.output!r}: {shape}, {self.slices} slices in {self.slabs} "
                f"slabs{resumed}, {self.seconds:.3g} s>")

    def _repr_html_(self) -> str:
        stages = ", ".join(f"{name} {seconds:.3g} s" for name, (seconds, _) in self.stages.items()
                           if seconds > 0)
        return table("Run", {
            "output": self.output + ("" if self.complete else " (not written)"),
            "volume (z, y, x)": times(self.shape),
            "slices": f"{self.slices} in {self.slabs} slabs"
                      + (f", {self.resumed} resumed" if self.resumed else ""),
            "time": f"{self.seconds:.3g} s", "stages": stages, "limited by": self.limiting,
            "read, written": f"{size(self.read_bytes)}, {size(self.written_bytes)}",
            "iterations": self.iterations or None,
            "residual": f"{self.residual:.6g}" if self.residual == self.residual else None,
            "error": f"{self.error:.6g}" if self.error == self.error else None,
            "ended by": self.ended})

    def plot(self, ax: Any = None) -> Any:
        """Draws the busy time of each stage with matplotlib; returns the axes."""
        from ._show import plot_report
        return plot_report(self, ax)


class _Lines:
    """Messages of a run: warnings become Python's, other lines are printed if `verbose`."""

    def __init__(self, verbose: bool) -> None:
        self.lines: list[str] = []
        self.levels: list[int] = []
        self.verbose, self.shown = verbose, 0

    def add(self, _: Any, level: int, line: bytes) -> None:
        self.levels.append(level)
        self.lines.append(("", "note: ", "warning: ")[level] + line.decode(errors="replace"))

    def show(self) -> None:
        """Called in the caller's thread, as a warning may raise an exception."""
        while self.shown < len(self.lines):
            line, level = self.lines[self.shown], self.levels[self.shown]
            self.shown += 1
            if level == 2: # TOMOS_WARNING
                warnings.warn(line.removeprefix("warning: "), stacklevel=_level())
            elif self.verbose:
                print(line, flush=True)


def _level() -> int:
    """The `stacklevel` of the code that called the package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "tomos":
        level, frame = level + 1, frame.f_back
    return level


# ---- options ------------------------------------------------------------------------------


def _range(value: Optional[_Range], name: str) -> Optional[str]:
    """A slice as the text "FIRST:END"."""
    if not isinstance(value, slice):
        return value
    if value.step not in (None, 1):
        raise ValueError(f"{name} are used with step 1, not {value.step}")
    return ":".join("" if end is None else str(end) for end in (value.start, value.stop))


def _has_effect(group: str, name: str, method: str) -> bool:
    """Whether the method uses this option of the group."""
    iterative = method not in ANALYTIC
    if group == "algebraic":
        return iterative and bool(lib.method_uses(method.encode(), name.encode()))
    return iterative if group in _ITERATIVE else not iterative or group != "analytic"


def _sort(method: str, options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The options by group; one that has no effect in any of its groups is rejected."""
    values: dict[str, dict[str, Any]] = {group: {} for group in _JOB}
    for name, value in options.items():
        if value is None or value is False:
            continue
        used = [group for group, (_, rows) in _JOB.items()
                if name in rows and _has_effect(group, name, method)]
        if not used:
            raise BadValue(f"{name} has no effect with method {method}")
        for group in used:
            values[group][name] = value
    return values


def _fill(values: dict[str, dict[str, Any]], facts: str,
          degrees: Optional[bool]) -> dict[str, ctypes.Structure]:
    """The structs of the groups. An option may lack what it needs in one group if it has an effect
    in another."""
    filled = {group: GROUPS[group].fill_unchecked(degrees, facts, **own)
              for group, own in values.items()}
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


def _check_scan(path: _Path, values: dict[str, dict[str, Any]],
                structs: dict[str, ctypes.Structure], views: bool) -> None:
    """Rejects options that contradict the content of the scan, or have no effect for lack of it."""
    groups = ("scan", "axis", "prep")
    if not any(values[group] for group in groups):
        return
    scan = Scan(path, **values["source"])
    job = JobStruct(geometry=ctypes.addressof(structs["scan"]),
                    prep=ctypes.addressof(structs["prep"]))
    given = (ctypes.c_uint64 * 3)(*(GROUPS[group].bits(values[group]) for group in groups))
    check(lib.job_check(ctypes.byref(job), scan._handle, b"`geometry`" if views else None, given))
    GROUPS["prep"].fill(facts=_facts(scan), **values["prep"])


def _facts(scan: Scan) -> str:
    facts = ctypes.create_string_buffer(128)
    lib.scan_facts(scan._handle, facts, len(facts))
    return facts.value.decode()


def _geometry_fact(path: _Path, values: dict[str, dict[str, Any]]) -> str:
    """The geometry of a scanner's file, with which distances have an effect."""
    if not {"source_axis", "source_detector"} & values["scan"].keys():
        return ""
    words = _facts(Scan(path, **values["source"])).split()
    return "".join(f" {word}" for word in words if word.startswith("geometry="))


def _method(method: Optional[str]) -> str:
    """The name as the library has it, asd-pocs for asd_pocs; "": chosen by the geometry."""
    known = [*ANALYTIC, *(name.replace("_", "-") for name in METHODS)]
    name = (method or "").replace("_", "-")
    if name and name not in known:
        near = lib.name_nearest("|".join(known).encode(), name.encode())
        hint = f"did you mean {near.decode()!r}?" if near else f"there are {', '.join(known)}"
        raise BadValue(f"method {method!r} is not known; {hint}")
    return name


def _output(scan: _Path, output: Optional[_Path]) -> str:
    """The file or folder to write."""
    if output:
        return os.fspath(output)
    name = ctypes.create_string_buffer(len(os.fsencode(scan)) + 16)
    check(lib.job_output(os.fsencode(scan), name, len(name)))
    return os.fsdecode(name.value)


@contextmanager
def _files(given: dict[str, Optional[_Volume]]) -> Iterator[dict[str, bytes]]:
    """Arrays as temporary files, which the library reads slab by slab; files as given."""
    with tempfile.TemporaryDirectory(prefix="tomos_") as folder:
        paths = {}
        for name, value in given.items():
            if isinstance(value, (str, os.PathLike)):
                paths[name] = os.fsencode(value)
            elif value is not None:
                path = os.path.join(folder, name + ".npy")
                pixels = name == "ray_weights"
                if pixels and np.ndim(value) == 2:
                    value = np.expand_dims(value, 1)
                write(path, value, content="projections" if pixels else "volume")
                paths[name] = os.fsencode(path)
        yield paths


# ---- the call -----------------------------------------------------------------------------


def _report(struct: RunReportStruct, output: str, lines: Iterable[str]) -> RunReport:
    same = {name: getattr(struct, name) for name in (
        "slabs", "slices", "resumed", "seconds", "read_seconds", "compute_seconds",
        "write_seconds", "read_bytes", "written_bytes", "updates", "iterations", "residual",
        "error", "best", "planned_bytes", "start_seconds")}
    names = lib.stage_names().decode().split("|")
    stages = dict(zip(names, zip(struct.stage_seconds, struct.stage_bytes)))
    d = struct.difference
    difference = Difference(d.relative_l2, d.psnr, d.ssim, d.largest) if struct.compared else None
    return RunReport(
        output=output, shape=tuple(struct.shape), clipped=struct.cut,
        complete=bool(struct.complete), ended=(struct.ended or b"").decode(),
        stages=stages, limiting=names[struct.limiting],
        difference=difference, kernels=(struct.forward.decode(), struct.back.decode()),
        prep=PrepReport.from_buffer_copy(struct.prep), lines=tuple(lines), **same)


def _call(job: JobStruct, lines: _Lines, progress: Union[bool, Report], keep: Any) -> None:
    """Runs the job; messages and progress are handled in the caller's thread. A run that `progress`
    stopped returns if its output is complete."""
    bar = Bar() if progress is True else None
    watch: Any = bar or progress  # False: neither
    stopped = False

    def report(*step: Any) -> bool:
        nonlocal stopped
        lines.show()
        stopped = bool(watch(*step)) if watch else False
        return stopped

    try:
        call(lib.run, ctypes.byref(job), progress=True, report=report, keep=(job, keep), wait=True)
    except BaseException as failure:
        done = job.report.contents
        if not (stopped and isinstance(failure, Cancelled) and done.complete):
            _add_hint(failure, done)
            raise
    finally:
        if bar:
            bar.close()
    lines.show()


def _add_hint(failure: BaseException, report: RunReportStruct) -> None:
    """Adds to an exception what is left of the run."""
    if report.complete:
        hint = "the output has the last complete iterate"
    elif report.slices + report.resumed > 0:
        hint = "finished slices are kept, and resume=True continues from there"
    else:
        return
    if isinstance(failure, Error):
        failure.args = (f"{failure}; {hint}",)
    elif hasattr(failure, "add_note"):  # Python 3.11
        failure.add_note(hint)


def _written(scan: _Path, arguments: dict[str, Any]) -> str:
    """The call as text, which HDF5 outputs keep; arrays as their shapes."""
    def text(value: Any) -> str:
        if hasattr(value, "__fspath__"):
            return repr(os.fspath(value))
        shape = getattr(value, "shape", None)
        return repr(value) if shape is None or isinstance(value, Geometry) else f"<array {shape}>"
    given = [f"{name}={text(value)}" for name, value in arguments.items() if value is not None]
    return f"tomos.run({', '.join([text(scan), *given])})"


def _check_types(backend: Any, progress: Any) -> None:
    if not isinstance(backend, str):
        raise TypeError(f"a backend is one of the names {lib.backend_names().decode()}, not "
                        f"{backend!r}")
    if not (isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress is True, False or a function, not {progress!r}")


def _structs(scan: _Path, method: str, backend: str, views: bool, truth: bool,
             degrees: Optional[bool], options: dict[str, Any]) -> dict[str, ctypes.Structure]:
    """The option structs of a job."""
    check_radians(options.get("angles"), degrees)
    check_radians(options.get("arc"), degrees, "arc")
    values = _sort(method, options)
    facts = f"method={method}" + " truth=1" * truth + _geometry_fact(scan, values)
    structs = _fill(values, facts, degrees)
    _check_scan(scan, values, structs, views)
    if "pixel" not in values["scan"]:
        structs["scan"].pixel = 0  # that of the file
    if backend.startswith("cpu"):
        structs["device"].memory = 0  # which is for GPUs
    return structs


def _run(scan: _Path, output: Optional[_Path] = None, method: Optional[str] = None, *,
         geometry: Union[None, str, Geometry] = None, degrees: Optional[bool] = None,
         rows: Optional[_Range] = None, columns: Optional[_Range] = None,
         start: Optional[_Volume] = None, truth: Optional[_Volume] = None,
         mask: Optional[_Volume] = None, ray_weights: Optional[_Volume] = None,
         compare: Optional[_Volume] = None, stored: Optional[str] = None,
         matrix: Optional[_Path] = None, backend: str = "auto",
         progress: Union[bool, Report] = False, verbose: bool = False,
         **options: Any) -> RunReport:
    _check_types(backend, progress)
    name, path = _method(method), _output(scan, output)
    views = geometry if isinstance(geometry, Geometry) else None
    options.update(rows=_range(rows, "rows"), columns=_range(columns, "columns"),
                   geometry=None if views else geometry)
    arrays = {"start": start, "truth": truth, "mask": mask, "ray_weights": ray_weights,
              "matrix": matrix, "stored": stored}
    text = _written(scan, {"output": path, "method": method, **options, **arrays,
                           "compare": compare, "geometry": geometry, "degrees": degrees,
                           "backend": backend})
    _check_iterative(name or "fbp", arrays)
    structs = _structs(scan, name or "fbp", backend, views is not None,
                       truth is not None or compare is not None, degrees, options)
    if stored is not None:
        structs["stored"] = GROUPS["matrix"].fill(storage=arrays.pop("stored"))
    lines, struct = _Lines(verbose), RunReportStruct()
    with _files({**arrays, "compare": compare}) as paths:
        job = JobStruct(scan=os.fsencode(scan), output=os.fsencode(path), method=name.encode(),
                        backend=backend.encode(), views=views._handle if views else None,
                        command=text.encode(), say=SAY(lines.add), report=ctypes.pointer(struct),
                        comm=communicator(), **paths)
        for group, settings in structs.items():
            setattr(job, _MEMBERS.get(group, group), ctypes.addressof(settings))
        _call(job, lines, progress, keep=(structs, views))
    return _report(struct, path, lines.lines)


def _check_iterative(method: str, given: dict[str, Any]) -> None:
    """Rejects arrays and matrices that the method does not use."""
    for name, value in given.items():
        row = name in GROUPS["algebraic"].rows
        used = method not in ANALYTIC and (not row or _has_effect("algebraic", name, method))
        if value is not None and not used:
            raise BadValue(f"{name} has no effect with method {method}")


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

    Reads `scan` (a file, or a folder of TIFF files, as `tomos.Scan`), prepares it (flat fields,
    -log, rings, ...), reconstructs it with `method` and writes `output`, slab by slab, within
    `memory`. It does what the command `tomos recon` does, with the same options under the same
    names. For arrays in memory see `tomos.recon`.

    `output`: its extension selects the format, a final / a folder of TIFF files; default: the
    folder SCAN_rec beside the scan. `method`: "fbp", "fdk", "sirt", "cgls", ...; default: fdk for a
    cone beam, else fbp. `geometry`: a tomos.Geometry, or its kind ("parallel", "fan", "cone", ...)
    if the file has none. Angles are in radians unless `degrees` is true. `rows`, `columns`: a slice
    or a text, slice(200, 400) or "200:400". `backend`: one of `tomos.backends()`.

    Iterative methods: `start` is the volume to start from, `truth`, `mask` and `ray_weights` are
    described below; each is an array or a file. `stored` "csr" or "scsr" keeps the projector's
    matrix in memory, `matrix` is a file with it. Any method: `compare` is a volume, an array or a
    file, for the `difference` of the report.

    `progress` True shows a bar; a function is called with (stage, done, total, value), and stops
    the run if it returns a true value or raises. A stopped run, also by Ctrl-C, keeps its finished
    slices, and the same call with `resume=True` continues it. `verbose` prints the messages of the
    run, which are also in the `lines` of the report; warnings are those of Python.

    The result is a tomos.RunReport. With `dry_run=True` nothing is reconstructed, and the report
    has the plan: the shape of the volume, slabs and memory.

    Where rays stay in slices, iterative methods treat groups of 16 slices independently, so that
    results do not depend on the memory; methods with inner products of whole volumes, such as cgls,
    differ slightly from `tomos.cgls` of all slices.

    >>> scan = tomos.parallel(views=90, rows=4, columns=64)
    >>> ball = tomos.Phantom("ball", radius=20, value=0.02)
    >>> tomos.write("scan.h5", ball.project(scan), geometry=scan)
    >>> report = tomos.run("scan.h5", "volume.h5", filter="hann")
    >>> report.shape, report.slices
    ((4, 64, 64), 4)
    >>> round(float(tomos.read(report.output)[2, 32, 32]), 3)
    0.02
    """, "run", _sections())
