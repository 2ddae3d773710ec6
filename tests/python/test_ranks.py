"""Runs under mpirun: the ranks of a job share the work, with mpi4py or without."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tomos
from tomos._library import lib

SCRIPT = """
import sys
try:
    if sys.argv[2] == "mpi4py":
        from mpi4py import MPI
except ImportError:
    sys.exit(77)
import tomos
report = tomos.run("scan.h5", sys.argv[1])
assert report.slices == 9, report.slices
"""
SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl": "self,vader",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_plm": "isolated",
            "OMPI_MCA_hwloc_base_binding_policy": "none", "HYDRA_IFACE": "lo"}


def launcher():
    folder = Path(lib._name).parent
    for name in ("openmpi", "mpich"):
        if shutil.which(f"mpirun.{name}") and (folder / f"libtomos_{name}.so").exists():
            return f"mpirun.{name}"
    pytest.skip("there is no mpirun whose MPI tomos was built with")


@pytest.mark.parametrize("mpi", ["alone", "mpi4py"])
def test_ranks_write_one_file(tmp_path, mpi):
    start = launcher()
    scan = tomos.parallel(views=30, rows=9, columns=24)
    tomos.write(tmp_path / "scan.h5", tomos.Phantom("random", radius=10, count=9).project(scan), geometry=scan)
    tomos.run(tmp_path / "scan.h5", tmp_path / "one.npy")
    done = subprocess.run([start, "-n", "3", sys.executable, "-c", SCRIPT, "several.npy", mpi],
                          cwd=tmp_path, env={**os.environ, **SETTINGS, "PYTHONPATH": os.pathsep.join(sys.path)},
                          capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == 77:
        pytest.skip("there is no mpi4py")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "several.npy").read_bytes() == (tmp_path / "one.npy").read_bytes()
