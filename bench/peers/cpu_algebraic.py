"""Algebraic methods of tomos beside ASTRA's on the CPU and scikit-image's, on the same data, in one run.

One slice, parallel beam: SIRT, SART (one iteration of ASTRA is one view, so a sweep is as many as there
are views) and CGLS with ASTRA's `linear` projector, and `iradon_sart` of scikit-image. Both sides start
from zero and do the same iterations; seconds are per iteration or sweep, from runs of two lengths, so that
what is prepared once is left out. Errors are relative to the phantom.
"""
import statistics
import time

import astra
import numpy
from ctypes import byref
from skimage.transform import iradon_sart

from cpu_projectors import Tomos as Base, arguments

class Tomos(Base):
    def reconstruct(self, operator, method, sinogram, iterations, **options):
        n = sinogram.shape[-1]
        image = numpy.zeros((n, n), numpy.float32)
        data = sinogram.reshape(len(sinogram), 1, n)
        self.call("reconstruct", operator, method.encode(), byref(self.array(data)),
                  byref(self.array(image)),
                  self.options("algebraic", iterations=iterations, **options), None)
        return image


def phantom(n):
    """Ellipses of a modified Shepp-Logan head, two by two points per pixel."""
    ellipses = ((1, .69, .92, 0, 0, 0), (-.8, .6624, .874, 0, -.0184, 0), (-.2, .11, .31, .22, 0, -18),
                (-.2, .16, .41, -.22, 0, 18), (.1, .21, .25, 0, .35, 0), (.1, .046, .046, 0, .1, 0),
                (.1, .046, .046, 0, -.1, 0), (.1, .046, .023, -.08, -.605, 0),
                (.1, .023, .023, 0, -.606, 0), (.1, .023, .046, .06, -.605, 0))
    at = ((numpy.arange(2 * n) + 0.5) / n - 1)
    x, y = numpy.meshgrid(at, -at)
    image = numpy.zeros((2 * n, 2 * n))
    for value, a, b, x0, y0, degrees in ellipses:
        c, s = numpy.cos(numpy.radians(degrees)), numpy.sin(numpy.radians(degrees))
        u, v = (x - x0) * c + (y - y0) * s, -(x - x0) * s + (y - y0) * c
        image[(u / a) ** 2 + (v / b) ** 2 <= 1] += value
    return image.reshape(n, 2, n, 2).mean((1, 3)).astype(numpy.float32)


class Astra:
    def __init__(self, n, angles, sinogram):
        self.volume = astra.create_vol_geom(n, n)
        scan = astra.create_proj_geom("parallel", 1.0, n, angles)
        self.projector = astra.create_projector("linear", scan, self.volume)
        self.sinogram = astra.data2d.create("-sino", scan, sinogram)
        self.views = len(angles)

    def reconstruct(self, method, iterations):
        result = astra.data2d.create("-vol", self.volume)
        settings = {**astra.astra_dict(method), "ProjectorId": self.projector,
                    "ProjectionDataId": self.sinogram, "ReconstructionDataId": result}
        if method == "SART":
            settings["option"] = {"ProjectionOrder": "sequential"}
        algorithm = astra.algorithm.create(settings)
        astra.algorithm.run(algorithm, iterations * (self.views if method == "SART" else 1))
        image = astra.data2d.get(result)
        astra.algorithm.delete(algorithm)
        astra.data2d.delete(result)
        return image


def seconds(task, short, long, repeats):
    """Per iteration, and the volume of the long run."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        task(short)
        middle = time.perf_counter()
        image = task(long)
        times.append((time.perf_counter() - middle - (middle - begin)) / (long - short))
    return statistics.median(times), image


def main():
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--size", type=int, default=512, help="pixels and columns")
    parser.add_argument("--views", type=int, default=360)
    given = parser.parse_args()
    n, angles = given.size, numpy.arange(given.views) * (numpy.pi / given.views)
    tomos = Tomos(given.library, given.threads)
    print(f"tomos: {tomos.describe()}; astra-toolbox {astra.__version__}; {n} x {n}, {given.views} views")
    truth = phantom(n)
    operator = tomos.projector((n, n, 1), tomos.parallel(1, n, angles), forward="joseph")
    sinogram = numpy.zeros((given.views, 1, n), numpy.float32)
    tomos.forward(operator, truth, sinogram)
    sinogram = sinogram[:, 0, :] + numpy.random.default_rng(1).normal(
        0, 0.01 * numpy.abs(sinogram).mean(), (given.views, n)).astype(numpy.float32)
    sinogram = numpy.ascontiguousarray(sinogram)
    peer = Astra(n, angles, sinogram)

    def skimage(sweeps):
        image = None
        for _ in range(sweeps):
            image = iradon_sart(numpy.ascontiguousarray(sinogram.T, dtype=numpy.float64),
                                theta=numpy.degrees(angles), image=image, relaxation=0.15)
        return image

    def ours(method, **options):
        return lambda k: tomos.reconstruct(operator, method, sinogram, k, **options)

    pairs = (
        ("SIRT", "astra", lambda k: peer.reconstruct("SIRT", k), ours("sirt"), 2, 12, 12),
        ("CGLS", "astra", lambda k: peer.reconstruct("CGLS", k), ours("cgls"), 2, 12, 12),
        ("SART", "astra", lambda k: peer.reconstruct("SART", k), ours("sart", order="sequential"), 1, 3,
         12),
        ("SART", "skimage", skimage, ours("sart", relaxation=0.15, order="golden"), 1, 3, 20),
    )
    print(f"{'':6}{'peer':9}{'s/iteration':>13}{'tomos':>10}{'ratio':>8}{'wanted':>8}"
          f"{'error peer':>12}{'tomos':>9}")
    for name, who, theirs, mine, short, long, wanted in pairs:
        theirs(short), mine(short)
        slow, image = seconds(theirs, short, long, given.repeats)
        fast, own = seconds(mine, short, long, given.repeats)
        norm = numpy.linalg.norm(truth)
        # skimage's disc is all it reconstructs; the error is taken there for both.
        y, x = numpy.mgrid[0:n, 0:n] - (n - 1) / 2
        inside = x * x + y * y < (n / 2) ** 2 if who == "skimage" else numpy.ones((n, n), bool)
        errors = [float(numpy.linalg.norm((i - truth)[inside]) / norm) for i in (image, own)]
        print(f"{name:6}{who:9}{slow:13.4f}{fast:10.4f}{slow / fast:8.1f}{wanted:8d}"
              f"{errors[0]:12.4f}{errors[1]:9.4f}")


if __name__ == "__main__":
    main()
