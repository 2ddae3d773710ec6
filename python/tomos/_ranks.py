"""Ranks: one run by several processes, which mpirun or srun has started."""
from __future__ import annotations

import atexit
import ctypes
import sys
from typing import Optional

from ._library import check, lib

_opened: Optional[ctypes.c_void_p] = None


def _of_mpi4py() -> tuple[Optional[bytes], Optional[int]]:
    """The MPI of mpi4py and the address of its communicator, where it has been imported."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return None, None
    name = b"openmpi" if "Open MPI" in mpi.Get_library_version() else b"mpich"
    return name, mpi._addressof(mpi.COMM_WORLD)


def communicator() -> Optional[ctypes.c_void_p]:
    """The ranks of this job, opened once; None without a launcher."""
    global _opened
    if _opened is None and lib.comm_launched():
        opened = ctypes.c_void_p()
        name, address = _of_mpi4py()
        check(lib.comm_open(ctypes.byref(opened), name, address))
        atexit.register(lib.comm_close, opened)
        _opened = opened
    return _opened
