"""What the tests of the Python package share."""
import numpy as np
import pytest
import tomos


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
