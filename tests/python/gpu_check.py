"""Checks the package on an NVIDIA GPU; exits with 1 if a check fails.

    PYTHONPATH=python TOMOS_LIBRARY=build/libtomos.so python3 tests/python/gpu_check.py [SIZE]

It needs NumPy; checks of PyTorch and CuPy are skipped with a message if these are not installed.
The CUDA module is beside the library, or in the folder TOMOS_MODULES.
"""
import importlib
import sys
import threading
import traceback

import numpy as np
import tomos
from tomos import _arrays


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


torch, cupy = module("torch"), module("cupy")
if torch:
    import tomos.torch

SIZE = int(sys.argv[1]) if len(sys.argv) > 1 else 256
CLOSE = 1e-5
CHECKS = []


def check(needs=""):
    return lambda function: CHECKS.append((function, needs))


def far(a, b):
    a, b = (np.asarray(_arrays.to_host(v), np.float64) for v in (a, b))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def near(what, a, b, most=CLOSE):
    apart = far(a, b)
    print(f"  {what}: {apart:.1e} apart")
    assert apart < most, f"{what}: {apart:g} is not below {most:g}"


def scans(n):
    """A slice, a stack of slices and a cone beam."""
    return {"slice": (tomos.Grid(n), tomos.parallel(views=90, columns=n)),
            "stack": (tomos.Grid((9, n // 2, n // 2)),
                      tomos.parallel(views=60, rows=9, columns=n // 2)),
            "cone": (tomos.Grid((n // 4,) * 3),
                     tomos.cone(views=60, rows=n // 4, columns=n // 4, source_axis=2 * n,
                                source_detector=3 * n))}


def pairs(n=64):
    for name, (grid, scan) in scans(n).items():
        yield (name, tomos.Projector(grid, scan, backend="cuda"),
               tomos.Projector(grid, scan, backend="cpu"))


def random(shape, **options):
    return torch.rand(shape, device="cuda", generator=torch.Generator("cuda").manual_seed(1),
                      **options)


def lowest_free(function):
    """The result of a function, and the least free GPU memory while it ran repeatedly."""
    going, least = True, [torch.cuda.mem_get_info()[0]]

    def watch():
        while going:
            least[0] = min(least[0], torch.cuda.mem_get_info()[0])
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        for _ in range(10):
            function()
    finally:
        going = False
        thread.join()
    return least[0]


@check()
def arrays_of_the_package():
    rng = np.random.default_rng(1)
    for name, A, C in pairs():
        x, y = rng.random(A.domain, np.float32), rng.random(A.range, np.float32)
        dx, dy = tomos.to_device(x, "cuda"), tomos.to_device(y, "cuda")
        p, b = A @ dx, A.T @ dy
        assert isinstance(p, tomos.DeviceArray) and p.device == 1
        near(f"{name}, A @ x", p, C @ x)
        near(f"{name}, A.T @ y", b, C.T @ y)
        left, right = np.vdot(p.to_host().astype(float), y), np.vdot(x.astype(float), b.to_host())
        print(f"  {name}, dot test: {abs(left - right) / abs(left):.1e}")
        assert abs(left - right) < 1e-6 * abs(left)
        seen = []
        z = tomos.sirt(A, dy, iterations=4, callback=lambda z, k,
                       residual: seen.append(z.to_host()))
        near(f"{name}, sirt", z, tomos.sirt(C, y, iterations=4))
        assert np.array_equal(seen[-1], z.to_host())
        ball = tomos.Phantom("ball", radius=8, value=0.02).project(A.geometry)
        near(f"{name}, fbp", tomos.fbp(A, tomos.to_device(ball, "cuda")), tomos.fbp(C, ball))


@check("torch")
def projections_on_the_card_are_the_cpus():
    for name, A, C in pairs():
        x, y = random(A.domain), random(A.range)
        p, b = A @ x, A.T @ y
        assert p.is_cuda and b.is_cuda and p.shape == A.range and b.shape == A.domain
        near(f"{name}, A @ x", p, C @ x.cpu())
        near(f"{name}, A.T @ y", b, C.T @ y.cpu())


@check("torch")
def memory_is_used_in_place():
    n = SIZE
    A = tomos.Projector(tomos.Grid((n, n, n)), tomos.parallel(views=n // 2, rows=n, columns=n),
                        backend="cuda")
    x, out = random(A.domain), torch.empty(A.range, device="cuda")
    view = _arrays.read_view(x, A.domain, 0, "x")
    assert view.struct.data == x.data_ptr() and view.struct.device == x.device.index + 1
    A(x, out=out), A.adjoint(out, out=x)  # kernels may keep a scratch from now on
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    allocated, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    lowest = lowest_free(lambda: (A(x, out=out), A.adjoint(out, out=x)))
    used, taken = torch.cuda.max_memory_allocated() - allocated, free - lowest
    print(f"  a volume of {x.nbytes >> 20} MiB: PyTorch allocated {used >> 20} MiB more, the GPU "
          f"{taken >> 20}")
    assert used == 0 and taken < x.nbytes // 2
    y = A @ x
    assert torch.cuda.max_memory_allocated() - allocated <= y.nbytes + (2 << 20)


@check("torch")
def adjoint_is_the_transpose():
    for name, A, _ in pairs():
        x, y = random(A.domain), random(A.range)
        left, right = ((a.double() * b.double()).sum().item() for a,
                       b in ((A @ x, y), (x, A.T @ y)))
        print(f"  {name}: {abs(left - right) / abs(left):.1e}")
        assert abs(left - right) < 1e-6 * abs(left)


@check("torch")
def strides_types_and_axes():
    A = tomos.Projector(tomos.Grid(32), tomos.parallel(views=20, columns=32), backend="cuda")
    x = random((32, 32))
    wanted = A @ x
    assert wanted.shape == (20, 32) and (A.T @ wanted).shape == (32, 32)
    for same in (x[None], x.double(), x.t().contiguous().t(), x.repeat_interleave(2, 1)[:, ::2]):
        near(f"{tuple(same.shape)} of strides {same.stride()}, {same.dtype}",
             (A @ same).reshape(20, 32), wanted)
    near("flat", (A @ x.ravel()).reshape(20, 32), wanted)
    for bad, message in ((torch.empty(32, 20, device="cuda").t(), "not contiguous"),
                          (torch.empty(20, 32, device="cuda", dtype=torch.float64),
                           "must be float32")):
        rejected(lambda: A(x, out=bad), message)
    rejected(lambda: A @ x.clone().requires_grad_(), "requires gradients")
    C = tomos.Projector(A.grid, A.geometry, backend="cpu")
    rejected(lambda: C @ x, "on device 1")


def rejected(call, message):
    try:
        call()
    except Exception as failure:
        assert message in str(failure), failure
        print(f"  rejected: {failure}")
    else:
        raise AssertionError(f"not rejected: {message}")


@check("torch")
def queued_work_is_waited_for():
    A = tomos.Projector(tomos.Grid(256), tomos.parallel(views=64, columns=256), backend="cuda")
    a = random((4096, 4096))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(20):
            a = a @ a
            a /= a.abs().max()
        x = a[:256, :256].contiguous()
        y = A @ x
    near("a volume still being made", y, A @ x.clone())


@check("torch")
def gradients():
    A = tomos.Projector(tomos.Grid(6), tomos.parallel(views=5, columns=6), backend="cuda")
    loose = dict(eps=0.1, atol=2e-3, rtol=2e-3, nondet_tol=1e-5)  # float32 inside, linear maps
    for name, shape in (("forward", (6, 6)), ("adjoint", (5, 6)), ("fbp", (5, 6))):
        function = getattr(tomos.torch, name)
        x = random((2, *shape), dtype=torch.float64).requires_grad_()
        assert torch.autograd.gradcheck(lambda x: function(A, x), (x,), **loose)
        assert function(A, x).is_cuda
        print(f"  {name}: gradcheck passed")


@check("torch")
def filtered_back_projection():
    for name, A, C in pairs():
        y = tomos.Phantom("ball", radius=8, value=0.02).project(A.geometry)
        x = tomos.fbp(A, torch.from_numpy(y).cuda())
        assert x.is_cuda
        near(f"{name}, fbp", x, tomos.fbp(C, y))


@check("torch")
def iterations():
    for name, A, C in pairs():
        y = C @ tomos.phantom("shepp-logan-modified", C.grid)
        seen = []
        x = tomos.sirt(A, torch.from_numpy(y).cuda(), iterations=5,
                       callback=lambda x, k, residual: seen.append(x.clone()))
        assert x.is_cuda and len(seen) == 5 and torch.equal(seen[-1], x)
        near(f"{name}, sirt", x, tomos.sirt(C, y, iterations=5))
        near(f"{name}, cgls", tomos.cgls(A, torch.from_numpy(y).cuda(), iterations=3),
             tomos.cgls(C, y, iterations=3), 1e-4)


@check("torch")
def arrays_shared():
    A = tomos.Projector(tomos.Grid(32), tomos.parallel(views=20, columns=32), backend="cuda")
    x = tomos.to_device(np.random.default_rng(1).random((32, 32)), "cuda")
    shared = torch.as_tensor(x, device="cuda")
    assert shared.data_ptr() == x._struct.data and x.device == 1
    y = A @ x
    assert isinstance(y, tomos.DeviceArray)
    near("DeviceArray and tensor", y.to_host(), (A @ shared).cpu())
    shared.zero_()
    assert not x.to_host().any()


@check("cupy")
def cupy_arrays():
    for name, A, C in pairs():
        x = cupy.random.default_rng(1).random(A.domain, dtype=cupy.float32)
        y = A @ x
        assert isinstance(y, cupy.ndarray) and y.shape == A.range
        near(f"{name}, A @ x", y, C @ x.get())
        near(f"{name}, strided", A @ x[::-1], C @ x.get()[::-1])
        near(f"{name}, sirt", tomos.sirt(A, y, iterations=3), tomos.sirt(C, y.get(), iterations=3))
    assert cupy.asarray(tomos.to_device(np.ones(4), "cuda")).sum() == 4


def main():
    try:
        A = tomos.Projector(tomos.Grid(8), tomos.parallel(views=4, columns=8), backend="cuda")
    except tomos.Error as failure:
        print(f"skipped: {failure}")
        return 77
    print(f"tomos {tomos.__version__} on {A.backend}; "
          + ", ".join(f"{m.__name__} {m.__version__}" for m in (np, torch, cupy) if m))
    results = {"passed": 0, "failed": 0, "skipped": 0}
    for function, needs in CHECKS:
        print(function.__name__.replace("_", " "))
        if needs and not globals()[needs]:
            print(f"  skipped: {needs} is not installed")
            results["skipped"] += 1
            continue
        try:
            function()
            results["passed"] += 1
        except Exception:
            traceback.print_exc(file=sys.stdout)
            results["failed"] += 1
    print(", ".join(f"{count} {what}" for what, count in results.items()))
    return results["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
