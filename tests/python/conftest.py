"""What the tests of the Python package share."""
import os
import signal
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import tomos


# A shell starts background jobs with SIGINT ignored, and Python then has no KeyboardInterrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _find_command():
    """The command installed beside Python, else the one built beside the library."""
    places = [Path(sysconfig.get_path("scripts"))]
    if "TOMOS_LIBRARY" in os.environ:
        places.append(Path(os.environ["TOMOS_LIBRARY"]).parent)
    found = [place / "tomos" for place in places if (place / "tomos").is_file()]
    return found[0].resolve() if found else None


COMMAND = _find_command()


def command(*words):
    """Runs the command `tomos`, which must succeed."""
    subprocess.run([str(COMMAND), *map(str, words), "-q"], check=True, timeout=60)


@pytest.fixture
def slice_problem():
    """One slice: operator, phantom, projections."""
    A = tomos.Projector(tomos.Grid(32), tomos.parallel(views=48, columns=32))
    x = tomos.phantom("shepp-logan-2d-modified", A.grid)
    return A, x, A @ x


@pytest.fixture
def volume_operator():
    """A small cone beam, every axis of another length."""
    scan = tomos.cone(views=10, rows=7, columns=9, source_axis=30, source_detector=40)
    return tomos.Projector(tomos.Grid((6, 8, 5)), scan)


@pytest.fixture
def rng():
    return np.random.default_rng(1)
