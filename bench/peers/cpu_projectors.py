"""CPU projectors of tomos beside astra-toolbox's, on the same data, in one run.

One slice, parallel beam: ASTRA's `linear` forward (FP) and back projection (BP), which use one core,
and the `joseph` and `voxel` models of tomos. The repeats of all tasks are interleaved, so that a slow
minute of the machine meets everybody. GU/s are 1e9 voxel-view pairs per second.
"""
import argparse
import ctypes
import statistics
import sys
import time
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p

import astra
import numpy

# ---- tomos through its C interface -----------------------------------------------------------


class Grid(ctypes.Structure):
    _fields_ = [("n", c_int64 * 3), ("first", c_double * 3), ("step", c_double * 3)]


class Array(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("shape", c_int64 * 3), ("stride", c_int64 * 3), ("device", c_int)]


class Option(ctypes.Structure):
    _fields_ = [("bytes", c_size_t), ("name", c_char_p), ("kind", c_int), ("fallback", c_char_p),
                ("values", c_char_p), ("help", c_char_p), ("offset", c_size_t), ("count_offset", c_size_t),
                ("needs", c_char_p)]


INT, REAL, ANGLE, FLAG, TEXT, CHOICE = range(6)  # tomos_option_kind
LENGTH, ENERGY, SIZE = range(11, 14)
SCALARS = {INT: c_int64, REAL: c_double, ANGLE: c_double, FLAG: c_int64, TEXT: c_char_p, CHOICE: c_char_p,
           LENGTH: c_double, ENERGY: c_double, SIZE: c_int64}


class Tomos:
    """The few functions the measurement needs; a failure raises with the library's sentence."""

    def __init__(self, path, threads):
        self.lib = ctypes.CDLL(path)
        self.lib.tomos_message.restype = c_char_p
        self.lib.tomos_options.restype = POINTER(Option)
        self.lib.tomos_array_of.restype = Array
        self.lib.tomos_array_of.argtypes = [c_void_p, c_int64, c_int64, c_int64]
        self.lib.tomos_backend_describe.restype = c_char_p
        self.lib.tomos_op_describe.restype = c_char_p
        self.texts = []  # what options structs point to
        self.call("set_threads", c_int(threads))
        self.backend = c_void_p()
        self.call("backend_open", byref(self.backend), b"cpu")

    def call(self, name, *arguments):
        if getattr(self.lib, "tomos_" + name)(*arguments) != 0:
            raise RuntimeError(f"tomos_{name}: {self.lib.tomos_message().decode()}")

    def describe(self):
        return self.lib.tomos_backend_describe(self.backend).decode()

    def options(self, group, **given):
        """An options struct, laid out and filled by the library's own table."""
        count = c_int()
        rows = self.lib.tomos_options(group.encode(), byref(count))
        rows = [rows[i] for i in range(count.value)]
        ends = [max(row.offset, row.count_offset) + 8 for row in rows]  # nothing is longer than 8
        size = (max(ends) + 7) // 8 * 8
        struct = ctypes.create_string_buffer(size)
        c_size_t.from_buffer(struct).value = size
        for row in rows:
            if row.kind not in SCALARS:  # lists stay empty
                continue
            name, fallback = row.name.decode(), row.fallback.decode()
            value = given.pop(name, fallback)
            if row.kind in (TEXT, CHOICE):
                value = value.encode()
                self.texts.append(value)
            else:
                value = float(value or 0) if SCALARS[row.kind] is c_double else int(value or 0)
            SCALARS[row.kind].from_buffer(struct, row.offset).value = value
        if given:
            raise KeyError(f"{group} has no option {', '.join(given)}")
        return struct

    def array(self, data):
        shape = (1,) * (3 - data.ndim) + data.shape
        return self.lib.tomos_array_of(data.ctypes.data, *shape)

    def parallel(self, rows, columns, angles):
        scan = c_void_p()
        self.call("geometry_parallel", byref(scan), c_int64(rows), c_int64(columns), c_double(1),
                  angles.ctypes.data_as(c_void_p), c_int64(len(angles)))
        return scan

    def cone(self, n, angles):
        scan = c_void_p()
        self.call("geometry_cone", byref(scan), c_int64(n), c_int64(n), c_double(2), c_double(2 * n),
                  c_double(4 * n), angles.ctypes.data_as(c_void_p), c_int64(len(angles)))
        return scan

    def projector(self, shape, scan, **options):
        grid, operator = Grid(), c_void_p()
        self.call("grid_centred", byref(grid), *map(c_int64, shape), c_double(1))
        self.call("op_projector", byref(operator), self.backend, byref(grid), scan,
                  self.options("projector", **options))
        return operator

    def forward(self, operator, x, y):
        self.call("op_forward", operator, byref(self.array(x)), byref(self.array(y)))

    def adjoint(self, operator, y, x):
        self.call("op_adjoint", operator, byref(self.array(y)), byref(self.array(x)))


# ---- ASTRA ------------------------------------------------------------------------------------


class Astra:
    def __init__(self, n, angles, image, sinogram):
        volume = astra.create_vol_geom(n, n)
        scan = astra.create_proj_geom("parallel", 1.0, n, angles)
        self.projector = astra.create_projector("linear", scan, volume)
        self.connect(volume, scan, image, sinogram)

    def connect(self, volume, scan, image, sinogram):
        self.image = astra.data2d.create("-vol", volume, image)
        self.projected = astra.data2d.create("-sino", scan)
        self.sinogram = astra.data2d.create("-sino", scan, sinogram)
        self.smeared = astra.data2d.create("-vol", volume)
        self.fp = self.algorithm("FP", ProjectionDataId=self.projected, VolumeDataId=self.image)
        self.bp = self.algorithm("BP", ProjectionDataId=self.sinogram,
                                 ReconstructionDataId=self.smeared)

    def algorithm(self, kind, **data):
        return astra.algorithm.create({**astra.astra_dict(kind), "ProjectorId": self.projector, **data})

    def forward(self):
        astra.algorithm.run(self.fp)
        return astra.data2d.get_shared(self.projected)

    def back(self):
        astra.algorithm.run(self.bp)
        return astra.data2d.get_shared(self.smeared)


# ---- the measurement --------------------------------------------------------------------------


def blobs(n):
    """A smooth object without any symmetry, so that a flipped axis cannot hide."""
    y, x = numpy.mgrid[0:n, 0:n].astype(numpy.float32) / n - 0.5
    image = numpy.zeros((n, n), numpy.float32)
    for cx, cy, wx, wy, value in ((0.1, -0.2, 0.1, 0.05, 1.0), (-0.25, 0.1, 0.03, 0.08, 0.7),
                                  (0.2, 0.22, 0.05, 0.03, 0.4)):
        image += value * numpy.exp(-((x - cx) / wx) ** 2 - ((y - cy) / wy) ** 2)
    return image


def relative(a, b):
    return float(numpy.linalg.norm(a - b) / numpy.linalg.norm(b))


def demand(what, error, limit):
    print(f"  {what}: {error:.1e} (limit {limit:g})")
    if not error <= limit:
        sys.exit(f"peers: {what} differ, so the numbers would not compare like with like")


def clock(tasks, repeats, now=time.perf_counter):
    """Seconds of each task; the first, untimed round warms up."""
    seconds = {name: [] for name in tasks}
    for repeat in range(repeats + 1):
        for name, task in tasks.items():
            start = now()
            task()
            if repeat:
                seconds[name].append(now() - start)
    return seconds


def report(name, seconds, updates, peer=None):
    """Prints and returns the rate; `peer`: that of ASTRA."""
    rates = sorted(updates / s / 1e9 for s in seconds)
    line = f"{name:<28}{statistics.median(rates):9.3f} GU/s  ({rates[0]:.3f} .. {rates[-1]:.3f})"
    if peer:
        line += f"  {statistics.median(rates) / peer:6.1f} x ASTRA"
    print(line)
    return statistics.median(rates)


def compare(seconds, updates, slices=1):
    """The rate of every task, those of tomos beside the best of ASTRA in the same direction. `updates` of a
    slice: ASTRA does one at a time, so that the ratio is that of the times per slice."""
    best = {"FP": 0, "BP": 0}
    for name, times in seconds.items():
        way = "FP" if "FP" in name or "forward" in name else "BP"
        if name.startswith("astra"):
            best[way] = max(best[way], report(name, times, updates))
        else:
            report(name, times, slices * updates, best[way])


def slice_tasks(tomos, n, angles):
    """Every task of the slice, after a check that peer and tomos give the same."""
    image = blobs(n)
    scan = tomos.parallel(1, n, angles)
    joseph = tomos.projector((n, n, 1), scan, forward="joseph")
    voxel = tomos.projector((n, n, 1), scan, forward="joseph", back="voxel")
    sinogram, smeared = numpy.zeros((n, 1, n), numpy.float32), numpy.zeros((n, n), numpy.float32)
    tomos.forward(joseph, image, sinogram)
    peer = Astra(n, angles, image, sinogram[:, 0, :])
    print("checks, relative L2:")
    demand("projections of both", relative(sinogram[:, 0, :], peer.forward()), 1e-3)
    tomos.adjoint(joseph, sinogram, smeared)
    wanted = peer.back()
    demand("adjoints of both", relative(smeared, wanted), 1e-3)
    tomos.adjoint(voxel, sinogram, smeared)
    demand("voxel-driven back projection and ASTRA's", relative(smeared, wanted), 2e-2)
    return {
        "astra linear FP": peer.forward,
        "astra linear BP": peer.back,
        "tomos joseph forward": lambda: tomos.forward(joseph, image, sinogram),
        "tomos joseph adjoint": lambda: tomos.adjoint(joseph, sinogram, smeared),
        "tomos voxel back projection": lambda: tomos.adjoint(voxel, sinogram, smeared),
    }


def cone_task(tomos, n):
    angles = numpy.arange(n) * (2 * numpy.pi / n)
    operator = tomos.projector((n, n, n), tomos.cone(n, angles), forward="joseph", back="voxel")
    projections = numpy.random.default_rng(1).random((n, n, n), numpy.float32)
    volume = numpy.zeros((n, n, n), numpy.float32)
    return lambda: tomos.adjoint(operator, projections, volume)


def arguments(text, repeats, size=None):
    """What all comparisons have; `text`: of the module; `size` of the slices: default, None: no such argument."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--library", required=True, help="libtomos.so")
    parser.add_argument("--threads", type=int, default=2, help="of tomos, and of RTK")
    parser.add_argument("--repeats", type=int, default=repeats)
    if size:
        parser.add_argument("--size", type=int, default=size, help="of a slice; as many views, columns")
    return parser


def begin(parser):
    """The arguments, the library, and the clock they ask for."""
    parser.add_argument("--processor", action="store_true", help="processor time instead of time")
    given = parser.parse_args()
    tomos = Tomos(given.library, given.threads)
    print(f"tomos: {tomos.describe()}; astra-toolbox {astra.__version__}: 1 thread")
    return given, tomos, time.process_time if given.processor else time.perf_counter


def title(text, given):
    print(f"\n{text}; median (range) of {given.repeats} repeats{', processor time' if given.processor else ''}")


def main():
    parser = arguments(__doc__, repeats=5, size=1024)
    parser.add_argument("--cone", type=int, default=256, help="size of the cone-beam task")
    given, tomos, now = begin(parser)
    n = given.size
    tasks = slice_tasks(tomos, n, numpy.arange(n) * (numpy.pi / n))
    cone = f"tomos cone {given.cone}^3 voxel"
    tasks[cone] = cone_task(tomos, given.cone)
    seconds = clock(tasks, given.repeats, now)
    cone_seconds = seconds.pop(cone)
    title(f"{n} x {n} pixels, {n} views x {n} columns", given)
    compare(seconds, n ** 3)
    report(cone, cone_seconds, given.cone ** 4)


if __name__ == "__main__":
    main()
