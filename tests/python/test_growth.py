"""The same calls again and again: the process does not grow."""
import os

import numpy as np
import tomos


def resident():
    """Kilobytes of memory in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def grown(call, warm=100, runs=1000):
    for _ in range(warm):
        call()
    before = resident()
    for _ in range(runs):
        call()
    return resident() - before


def test_nothing_grows(tmp_path):
    A = tomos.Projector(tomos.Grid(16), tomos.parallel(views=12, columns=16))
    x = np.ones(A.domain, np.float32)
    y = A @ x
    path = str(tmp_path / "volume.npy")

    def rejected():
        try:
            tomos.sirt(A, y[:1])
        except ValueError:
            return
        raise AssertionError("a wrong shape is taken")

    calls = {
        "projector": lambda: tomos.Projector(tomos.Grid(16),
                                             tomos.parallel(views=12, columns=16)) @ x,
        "adjoint": lambda: A.T @ y,
        "fbp": lambda: tomos.fbp(A, y),
        "sirt": lambda: tomos.sirt(A, y, iterations=2),
        "cgls": lambda: tomos.cgls(A, y, iterations=2, callback=lambda *_: None),
        "rejected": rejected,
        "files": lambda: (tomos.write(path, x, overwrite=True), tomos.read(path)),
    }
    for name, call in calls.items():
        assert grown(call) < 2000, name
