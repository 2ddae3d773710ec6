# Functions of the tests that run several ranks, sourced with the arguments of the test: COMMAND SOURCES BUILD.
# Only the loopback is used, more ranks than cores are allowed, and a watchdog ends what hangs.
set -u
tomos=$(readlink -f "$1")
build=$(readlink -f "$3")
sanitize=$(sed -n 's/^TOMOS_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
if [ -n "$sanitize" ]; then
	echo "skipped: the libraries of MPI do not go together with sanitizers; test_ranked runs there"
	exit 77
fi
folder=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0
export LC_ALL=C TOMOS_TUNE=off OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_plm=isolated OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_hwloc_base_binding_policy=none
export HYDRA_IFACE=lo FI_PROVIDER=tcp

# The launchers whose module was built: names of programs.
launchers=()
for one in ${TOMOS_LAUNCHERS:-openmpi mpich}; do
	if [ -e "$build/libtomos_$one.so" ] && command -v "mpirun.$one" >/dev/null; then
		launchers+=("mpirun.$one")
	fi
done
if [ ${#launchers[@]} = 0 ]; then
	echo "skipped: there is no mpirun whose MPI tomos was built with"
	exit 77
fi

ok() { echo "ok - $1"; }
bad() {
	echo "not ok - $1"
	sed 's/^/#   /' out err 2>/dev/null | tail -20
	failures=$((failures + 1))
}
# ranks LAUNCHER COUNT WORDS...: the command on COUNT ranks; its output is in out and err.
ranks() {
	local launcher=$1 count=$2
	shift 2
	timeout -k 5 "${patience:-120}" "$launcher" -n "$count" "$tomos" "$@" >out 2>err
}
one() { "$tomos" "$@" >out 2>err; }
# same WHAT COUNT WORDS...: one process and COUNT ranks write the same bytes. The output is named by -o.
same() {
	local what=$1 count=$2 launcher=${launchers[$((turn++ % ${#launchers[@]}))]}
	shift 2
	rm -rf single several && mkdir single several
	(cd single && one "$@") || bad "$what: one process"
	(cd several && ranks "$launcher" "$count" "$@") || { cp several/out several/err .; bad "$what: $count ranks"; return; }
	rm -f single/out single/err several/err
	mv several/out .
	if diff -r single several >err 2>&1; then ok "$what, $count ranks ($launcher)"; else bad "$what: $count ranks, $launcher: not the same bytes"; fi
}
# near WHAT COUNT LIMIT WORDS...: the relative difference of the volumes is at most LIMIT. Words in `several` are for the
# ranks alone.
several=()
near() {
	local what=$1 count=$2 limit=$3 launcher=${launchers[$((turn++ % ${#launchers[@]}))]} found
	shift 3
	rm -rf single several && mkdir single several
	(cd single && one "$@") || bad "$what: one process"
	(cd several && ranks "$launcher" "$count" "$@" "${several[@]}") ||
		{ cp several/out several/err .; bad "$what: $count ranks"; return; }
	cp several/out printed
	"$tomos" compare single/v.npy several/v.npy >out 2>err || bad "$what: not compared"
	found=$(sed -n 's/^relative L2 *//p' out)
	if awk "BEGIN {exit !(\"$found\" != \"\" && $found <= $limit)}"; then
		ok "$what, $count ranks ($launcher): $found"
	else
		bad "$what: $count ranks, $launcher: the difference is $found, more than $limit"
	fi
}
turn=0
