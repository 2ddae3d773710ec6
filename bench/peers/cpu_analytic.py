"""Analytic reconstruction of tomos on the CPU beside RTK, ASTRA and scikit-image, in one run.

Cone beam: RTK's FDK (itk-rtk) and tomos' with the same number of threads, from projections in memory to
a volume in memory; once with an upright detector and once with a rolled one. One slice: ASTRA's CPU FBP
and scikit-image's iradon, which use one core, beside tomos fbp. Every peer gets the same projections of the Shepp-Logan head, and its picture is compared
with that of tomos first. The repeats take turns, so that a slow minute of the machine meets everybody.
"""
import statistics
import sys
from ctypes import byref, c_double, c_int, c_int64, c_void_p

import astra
import itk
import numpy
import skimage
from itk import RTK
from skimage.transform import iradon

from cpu_projectors import Grid, Tomos, arguments, clock, relative

# ---- tomos ------------------------------------------------------------------------------------


class Analytic(Tomos):
    def phantom(self, name, radius):
        phantom = c_void_p()
        self.call("phantom_named", byref(phantom), name.encode(),
                  self.options("phantom", radius=radius))
        return phantom

    def simulate(self, phantom, scan, shape):
        projections = numpy.zeros(shape, numpy.float32)
        self.call("phantom_project", phantom, scan, c_int64(1), byref(self.array(projections)))
        return projections

    def parallel_about(self, columns, axis, angles):
        """One row, with the axis on this column, as a list of 12 numbers to a view."""
        zero, one = numpy.zeros_like(angles), numpy.ones_like(angles)
        u = numpy.stack([numpy.cos(angles), numpy.sin(angles), zero], 1)
        ray = numpy.stack([numpy.sin(angles), -numpy.cos(angles), zero], 1)
        v = numpy.stack([zero, zero, one], 1)
        rows = numpy.ascontiguousarray(
            numpy.concatenate([ray, ((columns - 1) / 2 - axis) * u, u, v], 1))
        scan = c_void_p()
        self.call("geometry_vectors", byref(scan), c_int64(1), c_int64(columns), c_int(0),
                  rows.ctypes.data_as(c_void_p), c_int64(len(angles)))
        return scan

    def reconstruct(self, method, grid, scan, projections, volume):
        self.call(method, self.backend, byref(grid), scan, byref(self.array(projections)),
                  byref(self.array(volume)), None, None)


    def cone_rolled(self, n, angles, roll):
        """The scan of Tomos.cone, with the detector rotated about the central ray."""
        zero, one = numpy.zeros_like(angles), numpy.ones_like(angles)
        ray = numpy.stack([numpy.sin(angles), -numpy.cos(angles), zero], 1)
        across, up = numpy.stack([numpy.cos(angles), numpy.sin(angles), zero], 1), numpy.stack([zero, zero, one], 1)
        u = numpy.cos(roll) * across + numpy.sin(roll) * up
        v = numpy.cos(roll) * up - numpy.sin(roll) * across
        rows = numpy.ascontiguousarray(numpy.concatenate([-2 * n * ray, 2 * n * ray, 2 * u, 2 * v], 1))
        scan = c_void_p()
        self.call("geometry_vectors", byref(scan), c_int64(n), c_int64(n), c_int(1),
                  rows.ctypes.data_as(c_void_p), c_int64(len(angles)))
        return scan


def grid_about(n, middle, slices):
    """n x n pixels of size 1, the one with this index on the axis; y index downwards."""
    return Grid((c_int64 * 3)(n, n, slices),
                (c_double * 3)(-middle, middle, -(slices - 1) / 2), (c_double * 3)(1, -1, 1))


# ---- the peers --------------------------------------------------------------------------------


class Rtk:
    """RTK turns about y and counts the angle the other way: its (x, y, z) are our (x, z, y)."""

    def __init__(self, n, pixel, source_axis, source_detector, angles, projections, threads, roll):
        itk.MultiThreaderBase.SetGlobalMaximumNumberOfThreads(threads)
        itk.MultiThreaderBase.SetGlobalDefaultNumberOfThreads(threads)
        self.geometry = RTK.ThreeDCircularProjectionGeometry.New()
        for angle in numpy.degrees(angles):
            self.geometry.AddProjection(source_axis, source_detector, -float(angle), 0.0, 0.0, 0.0,
                                        float(numpy.degrees(roll)))
        self.projections = itk.image_from_array(projections)
        self.projections.SetSpacing([pixel, pixel, 1.0])
        self.projections.SetOrigin([-(n - 1) / 2 * pixel, -(n - 1) / 2 * pixel, 0.0])
        self.size = n

    def run(self):
        # all new every time: a second update would do nothing, and the empty volume is used up
        empty = RTK.ConstantImageSource[itk.Image[itk.F, 3]].New()
        empty.SetSize([self.size] * 3)
        empty.SetOrigin([-(self.size - 1) / 2.0] * 3)
        fdk = RTK.FDKConeBeamReconstructionFilter[itk.Image[itk.F, 3]].New()
        fdk.SetInput(0, empty.GetOutput())
        fdk.SetInput(1, self.projections)
        fdk.SetGeometry(self.geometry)
        fdk.Update()
        self.result = fdk.GetOutput()

    def volume(self):
        return itk.array_from_image(self.result)[::-1].transpose(1, 0, 2)


class AstraFbp:
    def __init__(self, kind, n, angles, sinogram):
        volume = astra.create_vol_geom(n, n)
        scan = astra.create_proj_geom("parallel", 1.0, n, angles)
        self.image = astra.data2d.create("-vol", volume)
        self.algorithm = astra.algorithm.create({
            **astra.astra_dict("FBP"), "ProjectorId": astra.create_projector(kind, scan, volume),
            "ProjectionDataId": astra.data2d.create("-sino", scan, sinogram),
            "ReconstructionDataId": self.image, "option": {"FilterType": "ram-lak"}})

    def run(self):
        astra.algorithm.run(self.algorithm)

    def picture(self):
        return astra.data2d.get(self.image)


# ---- the measurement --------------------------------------------------------------------------


def demand(what, ours, peer, region, limit):
    error = relative(peer[region], ours[region])
    print(f"  {what}: relative L2 {error:.1e} (limit {limit:g}), means "
          f"{ours[region].mean():.5g} and {peer[region].mean():.5g}")
    if not error <= limit:
        sys.exit(f"peers: {what} differ, so the numbers would not compare like with like")


def report(name, seconds, updates, than=None):
    middle = statistics.median(seconds)
    line = f"{name:<34}{middle:9.3f} s ({min(seconds):.3f} .. {max(seconds):.3f}) "
    line += f"{updates / middle / 1e9:8.3f} GU/s"
    if than:
        line += f"   tomos is {middle / than:.1f} times as fast"
    print(line)


def cubes(volume):
    """Means of 16^3 parts of the volume."""
    side = volume.shape[0] // 16
    return volume[:16 * side, :16 * side, :16 * side].reshape(16, side, 16, side, 16, side).mean((1, 3, 5))


def cone(tomos, n, threads, repeats, roll):
    """n^3 voxels from n views of n^2 pixels."""
    angles = numpy.arange(n) * (2 * numpy.pi / n)
    scan = tomos.cone_rolled(n, angles, roll)
    projections = tomos.simulate(tomos.phantom("shepp-logan-modified", 0.4 * n), scan, (n, n, n))
    volume = numpy.zeros((n, n, n), numpy.float32)
    grid = grid_about(n, (n - 1) / 2, n)
    peer = Rtk(n, 2.0, 2.0 * n, 4.0 * n, angles, projections, threads, roll)
    tasks = {"rtk fdk": peer.run,
             "tomos fdk": lambda: tomos.reconstruct("fdk", grid, scan, projections, volume)}
    for task in tasks.values():
        task()
    if roll == 0:
        part = slice(n // 8, -(n // 8))
        demand("fdk of RTK and of tomos", volume, peer.volume(), (part,) * 3, 0.03)
    else:  # RTK filters along the rolled rows, tomos along resampled ones: fine detail differs
        part = slice(2, -2)
        demand("means of cubes of both", cubes(volume), cubes(peer.volume()), (part,) * 3, 0.05)
    seconds = clock(tasks, repeats)
    print(f"\ncone beam, {n}^3 voxels, {n} views of {n}^2 pixels, roll {numpy.degrees(roll):g} degrees, "
          f"{threads} threads each")
    report("tomos fdk", seconds["tomos fdk"], n ** 4)
    report("rtk fdk", seconds["rtk fdk"], n ** 4, statistics.median(seconds["tomos fdk"]))


def iradon_task(tomos, n, angles, every):
    """iradon's axis is on column n // 2; so is that of this scan. `every`: of this many views one."""
    few = numpy.ascontiguousarray(angles[::every])
    scan, grid = tomos.parallel_about(n, n // 2, few), grid_about(n, n // 2, 1)
    head = tomos.phantom("shepp-logan-2d-modified", 0.45 * n)
    sinogram = tomos.simulate(head, scan, (len(few), 1, n))
    columns = numpy.ascontiguousarray(sinogram[:, 0, :].T)
    ours, theirs = numpy.zeros((n, n), numpy.float32), {}

    def run():
        theirs["picture"] = iradon(columns, numpy.degrees(few), output_size=n, circle=True,
                                   filter_name="ramp")

    run()
    tomos.reconstruct("fbp", grid, scan, sinogram, ours)
    part = slice(n // 5, -(n // 5))
    demand("iradon and fbp of tomos", ours, theirs["picture"], (part, part), 0.05)
    return run


def one_slice(tomos, n, repeats, every):
    angles = numpy.arange(n) * (numpy.pi / n)
    scan, grid = tomos.parallel(1, n, angles), grid_about(n, (n - 1) / 2, 1)
    sinogram = tomos.simulate(tomos.phantom("shepp-logan-2d-modified", 0.45 * n), scan, (n, 1, n))
    picture = numpy.zeros((n, n), numpy.float32)
    tomos.reconstruct("fbp", grid, scan, sinogram, picture)
    part = slice(n // 5, -(n // 5))
    tasks = {"tomos fbp": lambda: tomos.reconstruct("fbp", grid, scan, sinogram, picture)}
    for kind, limit in (("linear", 0.05), ("line", 0.15)):  # line is the rougher model
        peer = AstraFbp(kind, n, angles, sinogram[:, 0, :])
        peer.run()
        demand(f"ASTRA's FBP ({kind}) and tomos'", picture, peer.picture(), (part, part), limit)
        tasks[f"astra FBP, {kind}"] = peer.run
    tasks[f"skimage iradon, 1 of {every} views"] = iradon_task(tomos, n, angles, every)
    seconds = clock(tasks, repeats)
    print(f"\none slice, {n} x {n} pixels, {n} views x {n} columns; iradon's time is counted {every} "
          "times")
    ours = statistics.median(seconds["tomos fbp"])
    for name, times in seconds.items():
        times = [s * (every if "iradon" in name else 1) for s in times]
        report(name, times, n ** 3, None if name.startswith("tomos") else ours)


def main():
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--cone", type=int, default=256, help="size of the cone-beam task")
    parser.add_argument("--roll", type=float, default=5, help="of the rolled detector, in degrees")
    parser.add_argument("--size", type=int, default=2048, help="of the slice; as many views, columns")
    parser.add_argument("--every", type=int, default=16, help="time iradon on every N-th view only")
    parser.add_argument("--only", choices=("cone", "slice"), help="leave the other one out")
    given = parser.parse_args()

    tomos = Analytic(given.library, given.threads)
    print(f"tomos: {tomos.describe()}; itk-rtk in ITK {itk.Version.GetITKVersion()}; astra-toolbox "
          f"{astra.__version__}; scikit-image {skimage.__version__}")
    if given.only != "slice":
        for roll in (0, given.roll):
            cone(tomos, given.cone, given.threads, given.repeats, numpy.radians(roll))
    if given.only != "cone":
        one_slice(tomos, given.size, given.repeats, given.every)


if __name__ == "__main__":
    main()
