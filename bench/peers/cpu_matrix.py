"""Stored matrices at the sizes of the cuART paper: SCSR and CSR of tomos beside SciPy's CSR, in one run.

All three have the same matrix: SciPy works on the very arrays of tomos' CSR, in place. A sweep is what
one iteration of SIRT, or of ART with all rays at once (cuART), asks of the matrix: y = A x, then
x' = A' y. `art` is Kaczmarz's method on SCSR, one ray after the other, per sweep over all rays: the same
products, with an update of the image between any two rays. SciPy's A' is A.T @ y, which needs no transposed
copy; it uses one core, tomos as many as --threads. The repeats are interleaved, so that a slow minute of
the machine meets everybody. Sizes for which there is no memory are left out, with a word.
"""
import ctypes
import statistics
import sys
import time
from ctypes import byref, c_double, c_int, c_int64, c_void_p

import numpy
import scipy
import scipy.sparse

from cpu_projectors import Grid, Tomos, arguments, blobs, clock, demand, relative

# Of the issue: CSR's bytes over SCSR's, at least; time of A' over that of A, at most; SCSR's products beside CSR's.
LEAST_RATIO, MOST_ADJOINT, SAME = 7.6, 1.3, 1e-6


class Matrix(ctypes.Structure):
    _fields_ = [("rows", c_int64), ("columns", c_int64), ("count", c_int64), ("pointer_bytes", c_int),
                ("index_bytes", c_int), ("pointers", c_void_p), ("indices", c_void_p),
                ("values", c_void_p)]


def stored(tomos, n, given, storage):
    """The matrix of n x n pixels as an operator."""
    angles = numpy.arange(given.views) * (numpy.pi / given.views)
    grid, scan, operator = Grid(), c_void_p(), c_void_p()
    tomos.call("grid_centred", byref(grid), c_int64(n), c_int64(n), c_int64(1), c_double(1))
    tomos.call("geometry_parallel", byref(scan), c_int64(1), c_int64(given.rays), c_double(n / given.rays),
               angles.ctypes.data_as(c_void_p), c_int64(given.views))
    tomos.call("op_matrix", byref(operator), tomos.backend, byref(grid), scan,
               tomos.options("projector", forward=given.model), tomos.options("matrix", storage=storage))
    tomos.lib.tomos_geometry_free(scan)
    print(f"  {tomos.lib.tomos_op_describe(operator).decode()}")
    return operator


def scipy_matrix(tomos, operator):
    m = Matrix()
    tomos.call("matrix_arrays", operator, byref(m))

    def view(address, count, kind):
        size = count * numpy.dtype(kind).itemsize
        return numpy.frombuffer((ctypes.c_char * size).from_address(address), kind)

    kinds = {4: numpy.int32, 8: numpy.int64}
    # SciPy wants both kinds of index alike, and copies them if they are not.
    arrays = (view(m.values, m.count, numpy.float32), view(m.indices, m.count, kinds[m.index_bytes]),
              view(m.pointers, m.rows + 1, kinds[m.pointer_bytes]))
    return scipy.sparse.csr_matrix(arrays, shape=(m.rows, m.columns), copy=False)


def bytes_of(tomos, operator):
    size = c_int64()
    tomos.call("matrix_bytes", operator, byref(size))
    return size.value


def available():
    """Bytes of memory that are free, or None where the system does not say."""
    try:
        with open("/proc/meminfo") as lines:
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None


def art_seconds(tomos, operator, y, n, repeats):
    """Of one sweep: two sweeps less one, so that what is prepared once is left out."""
    def run(sweeps):
        image = numpy.zeros((n, n), numpy.float32)
        begin = time.perf_counter()
        tomos.call("art", operator, byref(tomos.array(y)), byref(tomos.array(image)),
                   tomos.options("algebraic", iterations=sweeps), None)
        return time.perf_counter() - begin

    return statistics.median(run(2) - run(1) for _ in range(repeats))


def check_products(tomos, n, a, csr, scsr, shape):
    """Data of a phantom, after a look at every product."""
    x, back = blobs(n), {"CSR": numpy.zeros((n, n), numpy.float32), "SCSR": numpy.zeros((n, n), numpy.float32)}
    y = {name: numpy.zeros(shape, numpy.float32) for name in back}
    wanted = a @ x.ravel()
    data = wanted.reshape(shape).copy()
    print("  checks, relative L2:")
    for name, operator in ("CSR", csr), ("SCSR", scsr):
        tomos.forward(operator, x, y[name])
        tomos.adjoint(operator, data, back[name])
        demand(f"A x of tomos' {name} and SciPy", relative(y[name].ravel(), wanted), 1e-5)
        demand(f"A' y of tomos' {name} and SciPy", relative(back[name].ravel(), a.T @ wanted), 1e-5)
    demand("A x of SCSR and CSR", relative(y["SCSR"], y["CSR"]), SAME)
    demand("A' y of SCSR and CSR", relative(back["SCSR"], back["CSR"]), SAME)
    return x, data


def measure(tomos, n, given):
    """Prints the table of one size; what falls short of the issue, as sentences."""
    print(f"\n{n} x {n} pixels, {given.views} views x {given.rays} rays, {given.model}")
    scsr = stored(tomos, n, given, "scsr")
    guess = 9 * bytes_of(tomos, scsr)
    free = available()
    if free is not None and free < 1.2 * guess:
        print(f"  left out: CSR takes about {guess / 1e9:.0f} GB, {free / 1e9:.0f} GB are free")
        tomos.lib.tomos_op_free(scsr)
        return []
    csr = stored(tomos, n, given, "csr")
    a = scipy_matrix(tomos, csr)
    shape = (given.views, 1, given.rays)
    x, data = check_products(tomos, n, a, csr, scsr, shape)
    y, back, at = numpy.zeros_like(data), numpy.zeros_like(x), a.T
    tasks = {
        "scipy CSR A": lambda: a @ x.ravel(), "scipy CSR A'": lambda: at @ data.ravel(),
        "tomos CSR A": lambda: tomos.forward(csr, x, y), "tomos CSR A'": lambda: tomos.adjoint(csr, data, back),
        "tomos SCSR A": lambda: tomos.forward(scsr, x, y),
        "tomos SCSR A'": lambda: tomos.adjoint(scsr, data, back),
    }
    median = {name: statistics.median(s) for name, s in clock(tasks, given.repeats).items()}
    art = art_seconds(tomos, scsr, data, n, given.art_repeats)
    peer = median["scipy CSR A"] + median["scipy CSR A'"]
    size = {"scipy CSR": a.data.nbytes + a.indices.nbytes + a.indptr.nbytes,
            "tomos CSR": bytes_of(tomos, csr), "tomos SCSR": bytes_of(tomos, scsr)}
    print(f"  {a.nnz} entries; median of {given.repeats}, ms")
    print(f"  {'':<14}{'A':>9}{chr(65) + chr(39):>9}{chr(65) + chr(39) + '/A':>8}{'sweep':>9}{'x SciPy':>9}"
          f"{'MB':>10}{'CSR/':>7}")
    for name in size:
        one, two = median[name + " A"], median[name + " A'"]
        print(f"  {name:<14}{1e3 * one:9.1f}{1e3 * two:9.1f}{two / one:8.2f}{1e3 * (one + two):9.1f}"
              f"{peer / (one + two):9.1f}{size[name] / 1e6:10.1f}{size['tomos CSR'] / size[name]:7.2f}")
    print(f"  {'art on SCSR':<14}{'':>26}{1e3 * art:9.1f}{peer / art:9.1f}")
    tomos.lib.tomos_op_free(scsr)
    del a, at, tasks
    tomos.lib.tomos_op_free(csr)
    ratio = size["tomos CSR"] / size["tomos SCSR"]
    adjoint = median["tomos SCSR A'"] / median["tomos SCSR A"]
    faster = peer / (median["tomos SCSR A"] + median["tomos SCSR A'"])
    return [sentence for short, sentence in (
        (ratio < LEAST_RATIO, f"{n}: SCSR is {ratio:.2f} times smaller than CSR, less than {LEAST_RATIO}"),
        (adjoint > MOST_ADJOINT, f"{n}: A' of SCSR takes {adjoint:.2f} times as long as A, more than {MOST_ADJOINT}"),
        (faster < given.faster, f"{n}: a sweep with SCSR is {faster:.1f} times faster than SciPy's, "
                                f"less than {given.faster:g}")) if short]


def main():
    parser = arguments(__doc__, repeats=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024], help="of the images")
    parser.add_argument("--views", type=int, default=720)
    parser.add_argument("--rays", type=int, default=1024, help="of a view")
    parser.add_argument("--model", default="joseph", help="projector")
    parser.add_argument("--art-repeats", type=int, default=1, help="of ART's sweeps")
    parser.add_argument("--faster", type=float, default=3, help="fail if SCSR's sweep is not")
    given = parser.parse_args()
    tomos = Tomos(given.library, given.threads)
    print(f"tomos: {tomos.describe()}; SciPy {scipy.__version__}: 1 thread")
    short = [sentence for n in given.sizes for sentence in measure(tomos, n, given)]
    if short:
        sys.exit("peers: " + "; ".join(short))


if __name__ == "__main__":
    main()
