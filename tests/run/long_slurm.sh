#!/usr/bin/env bash
# The script of tomos recon --sbatch, run by a real SLURM: a controller and two nodes on the loopback interface,
# in a temporary folder. Each MPI that tomos was built with reconstructs the volume of one process.
#
#   long_slurm.sh COMMAND SOURCES BUILD
set -u
tomos=$(readlink -f "$1")
build=$(readlink -f "$3")
skip() {
	echo "skipped: $1"
	exit 77
}
for program in slurmctld slurmd sbatch srun python3; do
	command -v "$program" >/dev/null || skip "there is no $program (Debian: slurmctld, slurmd, slurm-client)"
done
[ -e "$build/libtomos_openmpi.so" ] || [ -e "$build/libtomos_mpich.so" ] || skip "tomos was built without MPI"

folder=$(mktemp -d)
started=()
# Only what was started here, by its number; jobs end with their nodes.
stop() {
	scancel --user "$(id -un)" >/dev/null 2>&1
	for pid in "${started[@]}"; do kill "$pid" 2>/dev/null; done
	for pid in "${started[@]}"; do wait "$pid" 2>/dev/null; done
	rm -rf "$folder"
}
trap stop EXIT
cd "$folder" || exit 1
export SLURM_CONF=$folder/slurm.conf OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TOMOS_TUNE=off
# The nodes are one machine, whose shared memory they must not take for their own.
export OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo FI_PROVIDER=tcp

read -r control first second < <(python3 -c '
import socket
s = [socket.socket() for _ in range(3)]
for one in s: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in s))')
mkdir -p state spool-a spool-b tmp-a tmp-b
# Nodes of one machine share its name and /tmp, so each has a folder of its own.
cat >slurm.conf <<END
ClusterName=loopback
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$control
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
ReturnToService=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
TmpFS=$folder/tmp-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
SlurmdParameters=config_overrides
NodeName=a NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$first CPUs=4 RealMemory=4000
NodeName=b NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$second CPUs=4 RealMemory=4000
PartitionName=all Nodes=a,b Default=YES MaxTime=60 State=UP
PartitionName=tomos Nodes=a,b MaxTime=60 State=UP
END
slurmctld -D >slurmctld.out 2>&1 &
started+=($!)
for node in a b; do
	slurmd -D -N "$node" >"slurmd-$node.out" 2>&1 &
	started+=($!)
done
for ((i = 0; i < 60; i++)); do
	[ "$(timeout 10 sinfo -h -p all -t idle -o %D 2>/dev/null)" = 2 ] && break
	sleep 1
done
[ "$i" -lt 60 ] || { tail -n 5 slurmctld.log slurmd-a.log; skip "SLURM does not start here, see above"; }

fail() {
	echo "long_slurm: $1"
	cat job.sh tomos-*.log 2>/dev/null
	tail -n 20 slurmd-*.log
	exit 1
}
"$tomos" project shepp-logan --geometry cone --source-axis 4 --source-detector 6 --pixel 0.05 --columns 64 --rows 50 \
	--views 60 --noise 0.05 -q -o scan.h5 || exit 1

# runs NAME TYPE METHOD...: the script, with the lines edited that the command names.
runs() {
	local name=$1 type=$2
	shift 2
	rm -f job.sh tomos-*.log volume.h5 single.h5
	"$tomos" recon scan.h5 "$@" --threads 1 -q -o single.h5 || exit 1
	"$tomos" recon scan.h5 "$@" --threads 1 --ranks 4 --dry-run --rates node.txt --sbatch job.sh -o volume.h5 >said ||
		fail "no plan"
	grep -q "wrote job.sh" said || fail "nothing is said of the lines to edit: $(cat said)"
	sed -i "s/^##SBATCH --partition=NAME/#SBATCH --partition=tomos/; s/^export SLURM_MPI_TYPE=pmix/export SLURM_MPI_TYPE=$type/" job.sh
	sed -i 's/--ntasks-per-node=1 /--ntasks-per-node=2 /' job.sh
	TOMOS_MODULES=$build timeout 300 sbatch --wait job.sh >said 2>&1 || fail "$name: the job fails: $(cat said)"
	[ "$("$tomos" compare single.h5 volume.h5 --max 1e-6 >said && echo same)" = same ] || fail "$name: $(cat said)"
	grep -q "^ranks     4" tomos-*.log || fail "$name: not four ranks"
	echo "ok - $name, 4 ranks on 2 nodes: $(grep -m 1 'relative L2' said)"
	rm -f node.txt
}
ran=
if [ -e "$build/libtomos_openmpi.so" ] && srun --mpi=list 2>&1 | grep -qw pmix; then
	runs "Open MPI, FDK" pmix
	runs "Open MPI, SIRT" pmix --method sirt --iterations 3
	ran=yes
fi
if [ -e "$build/libtomos_mpich.so" ] && srun --mpi=list 2>&1 | grep -qw pmi2; then
	runs "MPICH, FDK" pmi2
	runs "MPICH, SIRT" pmi2 --method sirt --iterations 3
	ran=yes
fi
[ -n "$ran" ] || skip "SLURM was built without pmix and pmi2"
