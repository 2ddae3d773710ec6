"""Fan beams on the CPU: tomos beside astra-toolbox, on the same data, in one run.

One slice with a point source: ASTRA's `line_fanflat` and `strip_fanflat` forward (FP) and back projection
(BP), which use one core, and the `line`, `joseph`, `voxel` and `footprint` models of tomos. The repeats
are interleaved. GU/s are 1e9 pixel-view pairs per second; --processor measures processor time.
"""
from ctypes import byref, c_int, c_int64, c_void_p

import astra
import numpy
from cpu_projectors import Astra, arguments, begin, blobs, clock, compare, demand, relative, title

MODELS = ("line", "joseph", "voxel", "footprint")


def scan_geometry(n, source):
    """n views over a full circle; the pixel is 1 at the axis, the magnification 1.5."""
    angles = numpy.arange(n) * (2 * numpy.pi / n)
    return astra.create_proj_geom("fanflat", 1.5, n, angles, source * n, 0.5 * source * n)


class AstraFan(Astra):
    def __init__(self, kind, n, scan, image, sinogram):
        volume = astra.create_vol_geom(n, n)
        self.projector = astra.create_projector(kind, scan, volume)
        self.connect(volume, scan, image, sinogram)


def scan_of(tomos, n, geometry):
    scan = c_void_p()
    vectors = numpy.ascontiguousarray(astra.geom_2vec(geometry)["Vectors"])
    tomos.call("geometry_vectors_2d", byref(scan), c_int64(n), c_int(1),
               vectors.ctypes.data_as(c_void_p), c_int64(len(vectors)))
    return scan


def tasks_of(tomos, n, source):
    """Every task, after a check that all give the same."""
    image, geometry = blobs(n), scan_geometry(n, source)
    scan = scan_of(tomos, n, geometry)
    operators = {m: tomos.projector((n, n, 1), scan, forward=m) for m in MODELS}
    sinogram, smeared = numpy.zeros((n, 1, n), numpy.float32), numpy.zeros((n, n), numpy.float32)
    tomos.forward(operators["joseph"], image, sinogram)
    peers = {k: AstraFan(k, n, geometry, image, sinogram[:, 0, :].copy())
             for k in ("line_fanflat", "strip_fanflat")}
    tasks, wanted = {}, {}
    print("checks, relative L2:")
    for kind, peer in peers.items():
        demand(f"projections of joseph and {kind}", relative(sinogram[:, 0, :], peer.forward()), 2e-2)
        wanted[kind] = peer.back().copy()
        tasks[f"astra {kind} FP"], tasks[f"astra {kind} BP"] = peer.forward, peer.back
    held = sinogram.copy()
    for model, operator in operators.items():
        tomos.adjoint(operator, held, smeared)
        demand(f"adjoints of {model} and line_fanflat", relative(smeared, wanted["line_fanflat"]), 5e-2)
        tasks[f"tomos {model} forward"] = lambda o=operator: tomos.forward(o, image, sinogram)
        tasks[f"tomos {model} adjoint"] = lambda o=operator: tomos.adjoint(o, held, smeared)
    return tasks


def main():
    parser = arguments(__doc__, repeats=5, size=512)
    parser.add_argument("--source", type=float, default=2.8, help="distance from the axis, in sizes")
    given, tomos, now = begin(parser)
    n = given.size
    tasks = tasks_of(tomos, n, given.source)
    seconds = clock(tasks, given.repeats, now)
    title(f"{n} x {n} pixels, {n} views x {n} columns, source at {given.source:g} n", given)
    compare(seconds, n ** 3)


if __name__ == "__main__":
    main()
