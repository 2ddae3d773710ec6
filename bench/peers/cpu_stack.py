"""Stacks of slices on the CPU: tomos beside astra-toolbox, on the same data, in one run.

Parallel beam, slices that share their weights: ASTRA's `linear` forward (FP) and back projection (BP)
of one slice, which use one core, and tomos with all slices at once, `joseph` and `voxel`. The repeats
are interleaved. GU/s are 1e9 voxel-view pairs per second, and the ratio is that of the times per slice.
With --processor the clock is the processor time of all threads, for machines with other work on them.
"""
import statistics
import time

import astra
import numpy
from cpu_projectors import Astra, Tomos, arguments, blobs, demand, relative


def clock(tasks, repeats, now):
    """Seconds of each task; the first, untimed round warms up."""
    seconds = {name: [] for name in tasks}
    for repeat in range(repeats + 1):
        for name, task in tasks.items():
            begin = now()
            task()
            if repeat:
                seconds[name].append(now() - begin)
    return seconds


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


def report(name, seconds, updates, peer=None):
    """`updates` of the task and of its peer: rates are compared, so times per slice."""
    rates = sorted(updates / s / 1e9 for s in seconds)
    line = f"{name:<28}{statistics.median(rates):9.3f} GU/s  ({rates[0]:.3f} .. {rates[-1]:.3f})"
    if peer:
        line += f"  {statistics.median(rates) / peer:6.1f} x ASTRA per slice"
    print(line)
    return statistics.median(rates)


def begin(parser):
    """The arguments, the library, and the clock they ask for."""
    parser.add_argument("--processor", action="store_true", help="processor time instead of time")
    given = parser.parse_args()
    tomos = Tomos(given.library, given.threads)
    print(f"tomos: {tomos.describe()}; astra-toolbox {astra.__version__}: 1 thread")
    return given, tomos, time.process_time if given.processor else time.perf_counter


def main():
    parser = arguments(__doc__, repeats=5)
    parser.add_argument("--size", type=int, default=512, help="of a slice; as many views, columns")
    parser.add_argument("--slices", type=int, default=32)
    given, tomos, now = begin(parser)
    n = given.size
    tasks = stack_tasks(tomos, n, given.slices, numpy.arange(n) * (numpy.pi / n))
    seconds = clock(tasks, given.repeats, now)

    print(f"\n{n} x {n} pixels x {given.slices} slices, {n} views x {n} columns; median (range) of "
          f"{given.repeats} repeats{', processor time' if given.processor else ''}")
    peers = {}
    for name in tasks:
        if name.startswith("astra"):
            peers[name[-2:]] = report(name, seconds[name], n ** 3)
        else:
            report(name, seconds[name], given.slices * n ** 3,
                   peers["FP" if "forward" in name else "BP"])


if __name__ == "__main__":
    main()
