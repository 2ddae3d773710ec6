"""Products with stored matrices: SCSR and CSR of tomos beside SciPy's CSR, in one run.

All three have the same matrix: SciPy works on the very arrays of tomos' CSR, in place. A sweep is what
one iteration of SIRT, or of ART with all rays at once (cuART), asks of the matrix: y = A x, then
x' = A' y. SciPy's A' is A.T @ y, which needs no transposed copy; it uses one core, tomos as many as
--threads. The repeats are interleaved, so that a slow minute of the machine meets everybody.
"""
import argparse
import ctypes
import statistics
import sys
from ctypes import byref, c_double, c_int, c_int64, c_void_p

import numpy
import scipy
import scipy.sparse

from cpu_projectors import Grid, Tomos, blobs, clock, demand, relative


class Matrix(ctypes.Structure):
    _fields_ = [("rows", c_int64), ("columns", c_int64), ("count", c_int64), ("pointer_bytes", c_int),
                ("index_bytes", c_int), ("pointers", c_void_p), ("indices", c_void_p),
                ("values", c_void_p)]


def stored(tomos, n, rays, angles, model, storage):
    """The matrix of n x n pixels as an operator."""
    grid, scan, operator = Grid(), c_void_p(), c_void_p()
    tomos.call("grid_centred", byref(grid), c_int64(n), c_int64(n), c_int64(1), c_double(1))
    tomos.call("geometry_parallel", byref(scan), c_int64(1), c_int64(rays), c_double(n / rays),
               angles.ctypes.data_as(c_void_p), c_int64(len(angles)))
    tomos.call("op_matrix", byref(operator), tomos.backend, byref(grid), scan,
               tomos.options("projector", forward=model), tomos.options("matrix", storage=storage))
    tomos.lib.tomos_geometry_free(scan)
    return operator


def scipy_matrix(tomos, operator):
    m = Matrix()
    tomos.call("matrix_arrays", operator, byref(m))

    def view(address, count, kind):
        size = count * numpy.dtype(kind).itemsize
        return numpy.frombuffer((ctypes.c_char * size).from_address(address), kind)

    kinds = {4: numpy.int32, 8: numpy.int64}
    arrays = (view(m.values, m.count, numpy.float32), view(m.indices, m.count, kinds[m.index_bytes]),
              view(m.pointers, m.rows + 1, kinds[m.pointer_bytes]))
    return scipy.sparse.csr_matrix(arrays, shape=(m.rows, m.columns), copy=False)


def bytes_of(tomos, operator):
    size = c_int64()
    tomos.call("matrix_bytes", operator, byref(size))
    return size.value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, help="libtomos.so")
    parser.add_argument("--size", type=int, default=512, help="of the image")
    parser.add_argument("--views", type=int, default=720)
    parser.add_argument("--rays", type=int, default=1024, help="of a view")
    parser.add_argument("--model", default="joseph", help="projector")
    parser.add_argument("--threads", type=int, default=2, help="of tomos")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--faster", type=float, default=3, help="fail if SCSR's sweep is not")
    given = parser.parse_args()

    tomos = Tomos(given.library, given.threads)
    n, angles = given.size, numpy.arange(given.views) * (numpy.pi / given.views)
    csr = stored(tomos, n, given.rays, angles, given.model, "csr")
    scsr = stored(tomos, n, given.rays, angles, given.model, "scsr")
    a = scipy_matrix(tomos, csr)
    at = a.T
    print(f"tomos: {tomos.describe()}; SciPy {scipy.__version__}: 1 thread")
    for operator in csr, scsr:
        print(f"  {tomos.lib.tomos_op_describe(operator).decode()}")

    x, y = blobs(n), numpy.zeros((given.views, 1, given.rays), numpy.float32)
    back = numpy.zeros((n, n), numpy.float32)
    wanted = a @ x.ravel()
    wanted_back = at @ wanted
    print("checks, relative L2:")
    for name, operator in ("CSR", csr), ("SCSR", scsr):
        tomos.forward(operator, x, y)
        demand(f"A x of tomos' {name} and SciPy", relative(y.ravel(), wanted), 1e-5)
        tomos.adjoint(operator, y, back)
        demand(f"A' y of tomos' {name} and SciPy", relative(back.ravel(), wanted_back), 1e-5)

    tasks = {
        "scipy CSR A": lambda: a @ x.ravel(), "scipy CSR A'": lambda: at @ wanted,
        "tomos CSR A": lambda: tomos.forward(csr, x, y), "tomos CSR A'": lambda: tomos.adjoint(csr, y, back),
        "tomos SCSR A": lambda: tomos.forward(scsr, x, y), "tomos SCSR A'": lambda: tomos.adjoint(scsr, y, back),
    }
    median = {name: statistics.median(s) for name, s in clock(tasks, given.repeats).items()}
    print(f"\n{n} x {n} pixels, {given.views} views x {given.rays} rays, {a.nnz} entries; "
          f"median of {given.repeats}, ms")
    print(f"{'':<14}{'A':>9}{chr(65) + chr(39):>9}{'sweep':>9}{'x SciPy':>9}{'MB':>9}")
    peer = median["scipy CSR A"] + median["scipy CSR A'"]
    size = a.data.nbytes + a.indices.nbytes + a.indptr.nbytes
    for name, held in (("scipy CSR", size), ("tomos CSR", bytes_of(tomos, csr)),
                       ("tomos SCSR", bytes_of(tomos, scsr))):
        one, two = median[name + " A"], median[name + " A'"]
        print(f"{name:<14}{1e3 * one:9.1f}{1e3 * two:9.1f}{1e3 * (one + two):9.1f}"
              f"{peer / (one + two):9.1f}{held / 1e6:9.1f}")
    faster = peer / (median["tomos SCSR A"] + median["tomos SCSR A'"])
    if faster < given.faster:
        sys.exit(f"peers: a sweep with SCSR is {faster:.1f} times faster than SciPy's, "
                 f"less than {given.faster:g}")


if __name__ == "__main__":
    main()
