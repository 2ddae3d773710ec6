"""Cone beams of the survey on a GPU: tomos beside astra-toolbox, on the same views, in one run.

The geometries are those of `tomos bench --survey`, written by the command (option --geometries). ASTRA
projects with direct_FP3D and direct_BP3D on tensors of PyTorch, tomos with `joseph`, `voxel` and
`footprint` in both directions; all data stay on the GPU. Repeats are interleaved and the shortest
counts. Forward projections are compared with ASTRA's FP, back projections with its BP: x is how many
times faster tomos is. Before timing, the projections of a smooth object are compared.

    PYTHONPATH=python TOMOS_LIBRARY=build/libtomos.so python3 bench/peers/gpu_cone.py --tomos build/tomos
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy

import tomos

MODELS = ("joseph", "voxel", "footprint")


def cases(command, scale, names):
    """Name, grid and views of each geometry."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([command, "bench", "--survey", *names, "--scale", str(scale), "--geometries", folder,
                        "--overwrite", "--quiet"], check=True)
        for line in (pathlib.Path(folder) / "grids.txt").read_text().splitlines():
            name, _, *numbers = line.split()
            n = [int(v) for v in numbers[:3]]
            step, first = [float(v) for v in numbers[3:6]], [float(v) for v in numbers[6:]]
            yield (name, tomos.Grid.from_steps(n[::-1], first=first, step=step),
                   tomos.Geometry.load(f"{folder}/{name}.json"))


class Astra:
    """ASTRA with the same grid and views. The y index of tomos counts downwards, ASTRA's upwards: the
    views are mirrored instead of the volume."""

    def __init__(self, grid, scan, device):
        import astra
        import torch
        import astra.experimental as direct
        self.astra, self.direct = astra, direct
        views, rows, columns = scan.shape
        vectors = numpy.array(scan.vectors, dtype=float)
        vectors[:, 1::3] *= numpy.sign(grid.step[1])
        nz, ny, nx = grid.shape
        sizes, ends = (nx, ny, nz), []
        for a in range(3):
            sign = numpy.sign(grid.step[a]) if a == 1 else 1
            low = sign * grid.first[a] - abs(grid.step[a]) / 2
            ends += [low, low + sizes[a] * abs(grid.step[a])]
        self.volume_geometry = astra.create_vol_geom(ny, nx, nz, *ends)
        self.scan_geometry = astra.create_proj_geom("cone_vec", rows, columns, vectors)
        self.projector = astra.create_projector("cuda3d", self.scan_geometry, self.volume_geometry)
        self.volume = torch.rand(grid.shape, device=device)
        self.projections = torch.rand((rows, views, columns), device=device)
        self.smeared, self.projected = torch.zeros_like(self.volume), torch.zeros_like(self.projections)

    def forward(self):
        self.direct.direct_FP3D(self.projector, self.volume, self.projected)

    def back(self):
        self.direct.direct_BP3D(self.projector, self.smeared, self.projections)

    def close(self):
        self.astra.projector3d.delete(self.projector)


class Tomos:
    """Operators of one geometry, with arrays on the device."""

    def __init__(self, grid, scan, backend, new):
        self.operators = {m: tomos.Projector(grid, scan, model=m, backend=backend) for m in MODELS}
        self.volume, self.projections = new(grid.shape), new(scan.shape)
        self.smeared, self.projected = new(grid.shape), new(scan.shape)

    def task(self, model, direction):
        a = self.operators[model]
        if direction == "forward":
            return lambda: a(self.volume, out=self.projected)
        return lambda: a.T(self.projections, out=self.smeared)


def blob(shape):
    """A smooth object, so that projectors agree."""
    axes = [numpy.linspace(-1, 1, n, dtype=numpy.float32) if n > 1 else numpy.zeros(1, numpy.float32)
            for n in shape]
    z, y, x = (numpy.exp(-8 * (a - c) ** 2) for a, c in zip(axes, (0.1, -0.2, 0.15)))
    return z[:, None, None] * y[None, :, None] * x[None, None, :]


def clock(tasks, repeats, sync):
    """Shortest time of each task, in ms; the first round warms up."""
    best = {name: float("inf") for name in tasks}
    for repeat in range(repeats + 1):
        for name, task in tasks.items():
            sync()
            begin = time.perf_counter()
            task()
            sync()
            if repeat:
                best[name] = min(best[name], 1e3 * (time.perf_counter() - begin))
    return best


def difference(peer, ours, object_):
    """Relative L2 difference of the forward projections."""
    import torch
    peer.volume.copy_(torch.from_numpy(object_))
    peer.forward()
    ours.volume.copy_(torch.from_numpy(object_))
    ours.task("joseph", "forward")()
    a = peer.projected.permute(1, 0, 2)
    return float(torch.linalg.norm(ours.projected - a) / torch.linalg.norm(a))


def measure(name, grid, scan, given):
    """One row: times in ms, and the difference of the projections."""
    row = {"name": name, "astra": None, "difference": None}
    if given.backend == "cpu":
        new, sync, peer = (lambda shape: numpy.random.rand(*shape).astype(numpy.float32)), (lambda: None), None
    else:
        import torch
        new, sync = (lambda shape: torch.rand(shape, device="cuda")), torch.cuda.synchronize
        peer = Astra(grid, scan, "cuda")
    ours = Tomos(grid, scan, given.backend, new)
    tasks = {f"{m} {d}": ours.task(m, d) for m in given.models for d in ("forward", "back")}
    if peer:
        row["difference"] = difference(peer, ours, blob(grid.shape))
        tasks.update({"astra forward": peer.forward, "astra back": peer.back})
    row.update(clock(tasks, given.repeats, sync))
    if peer:
        peer.close()
    return row


def report(row, models):
    line = f"{row['name']:<22}"
    peers = {d: row.get(f"astra {d}") for d in ("forward", "back")}
    line += "".join(f"{peers[d]:9.1f}" if peers[d] else f"{'-':>9}" for d in peers)
    for m in models:
        for d in peers:
            t = row[f"{m} {d}"]
            line += f"{t:10.1f}" + (f" {peers[d] / t:6.1f}x" if peers[d] else f"{'':>8}")
    line += f"  {row['difference']:.1e}" if row["difference"] is not None else ""
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tomos", default="build/tomos", help="the command, which writes the geometries")
    parser.add_argument("--library", help="libtomos.so; else TOMOS_LIBRARY")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", default=",".join(MODELS), help="of tomos")
    parser.add_argument("--backend", default="cuda", help="cpu: tomos alone")
    parser.add_argument("--json", help="results as a file")
    parser.add_argument("names", nargs="*", help="geometries; none: all cone beams")
    given = parser.parse_args()
    given.models = given.models.split(",")

    head = "".join(f"{m + ' ' + d:>18}" for m in given.models for d in ("forward", "back"))
    print(f"{'ms':<22}{'astra FP':>9}{'BP':>9}{head}  FP differs by")
    rows, slower = [], []
    for name, grid, scan in cases(given.tomos, given.scale, given.names or ["cone"]):
        try:
            rows.append(measure(name, grid, scan, given))
        except Exception as problem:  # a geometry that a toolbox does not have
            print(f"{name:<22} {type(problem).__name__}: {problem}", flush=True)
            continue
        report(rows[-1], given.models)
        for model, direction in (("joseph", "forward"), ("voxel", "back")):
            peer, key = rows[-1].get(f"astra {direction}"), f"{model} {direction}"
            if peer and key in rows[-1] and rows[-1][key] >= peer:
                slower.append(f"{name} {key}")
    print(f"{len(rows)} geometries; slower than ASTRA: {', '.join(slower) or 'none'}")
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
