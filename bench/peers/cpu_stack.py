"""Stacks of slices on the CPU: tomos beside astra-toolbox, on the same data, in one run.

Parallel beam, slices that share their weights: ASTRA's `linear` forward (FP) and back projection (BP)
of one slice, which use one core, and tomos with all slices at once, `joseph` and `voxel`. The repeats
are interleaved. GU/s are 1e9 voxel-view pairs per second, and the ratio is that of the times per slice.
With --processor the clock is the processor time of all threads, for machines with other work on them.
"""
import numpy
from cpu_projectors import Astra, arguments, begin, blobs, clock, compare, demand, relative, title


def stack_tasks(tomos, n, slices, angles):
    """Every task, after a check that peer and tomos give the same in a slice of the middle."""
    volume = numpy.stack([blobs(n) * (1 + 0.1 * k) for k in range(slices)])
    scan = tomos.parallel(slices, n, angles)
    joseph = tomos.projector((n, n, slices), scan, forward="joseph")
    voxel = tomos.projector((n, n, slices), scan, forward="voxel")
    projections = numpy.zeros((len(angles), slices, n), numpy.float32)
    smeared, middle = numpy.zeros_like(volume), slices // 2
    tomos.forward(joseph, volume, projections)
    peer = Astra(n, angles, volume[middle], numpy.ascontiguousarray(projections[:, middle]))
    print("checks, relative L2:")
    demand("projections of both", relative(projections[:, middle], peer.forward()), 1e-3)
    tomos.adjoint(joseph, projections, smeared)
    wanted = peer.back()
    demand("adjoints of both", relative(smeared[middle], wanted), 1e-3)
    tomos.adjoint(voxel, projections, smeared)
    demand("voxel-driven back projection and ASTRA's", relative(smeared[middle], wanted), 2e-2)
    return {
        "astra linear FP": peer.forward,
        "astra linear BP": peer.back,
        "tomos joseph forward": lambda: tomos.forward(joseph, volume, projections),
        "tomos voxel forward": lambda: tomos.forward(voxel, volume, projections),
        "tomos joseph adjoint": lambda: tomos.adjoint(joseph, projections, smeared),
        "tomos voxel back projection": lambda: tomos.adjoint(voxel, projections, smeared),
    }


def main():
    parser = arguments(__doc__, repeats=5, size=512)
    parser.add_argument("--slices", type=int, default=32)
    given, tomos, now = begin(parser)
    n = given.size
    tasks = stack_tasks(tomos, n, given.slices, numpy.arange(n) * (numpy.pi / n))
    seconds = clock(tasks, given.repeats, now)
    title(f"{n} x {n} pixels x {given.slices} slices, {n} views x {n} columns", given)
    compare(seconds, n ** 3, given.slices)


if __name__ == "__main__":
    main()
