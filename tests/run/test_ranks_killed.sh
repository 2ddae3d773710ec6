# A rank is killed: the job ends, and a message names that rank. It also ends if the launcher itself hangs.
. "$2/tests/run/ranks_help.sh"
"$tomos" project shepp-logan --geometry cone --source-axis 4 --source-detector 6 --columns 12 --rows 12 --views 10 -q \
	-o scan.h5 || exit 1

# until_true SECONDS WORDS...: waits until the command succeeds.
until_true() {
	local end=$((SECONDS + $1))
	shift
	while ! "$@" 2>/dev/null; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}
ended() { ! kill -0 "$1"; }
# The number of a rank and its process, of the last of three.
victim_of() {
	for process in $(pgrep -f "^$tomos recon scan.h5 --method cgls.* -o $1\$"); do
		rank=$(tr '\0' '\n' <"/proc/$process/environ" | sed -n 's/^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=//p')
		[ "$rank" = 2 ] && return 0
	done
	return 1
}
# kill_one LAUNCHER STOPPED: the iterations would take hours.
kill_one() {
	local launcher=$1 stopped=$2 name=v_${1}_$2.npy job
	"$launcher" -n 3 "$tomos" recon scan.h5 --method cgls --iterations 100000000 -o "$name" >out 2>err &
	job=$!
	until_true 60 grep -q '^plan' out || { bad "$launcher: no plan"; kill -9 $job; return; }
	until_true 10 victim_of "$name" || { bad "$launcher: no rank 2"; kill -9 $job; return; }
	[ "$stopped" = yes ] && kill -STOP $job
	kill -9 "$process"
	until_true 100 ended $job || { bad "$launcher, stopped: $stopped: does not end"; kill -9 $job; return; }
	wait $job 2>/dev/null
	# A launcher that is stopped prints nothing.
	if [ "$stopped" = yes ] || grep -q "^tomos: rank 2 (process $process) has ended" err; then
		ok "$launcher, stopped: $stopped"
	else
		bad "$launcher, stopped: $stopped: the rank is not named"
	fi
	[ ! -e "$name" ] || bad "$launcher: there is an output"
}
# A launcher that is killed: no rank and no shared memory is left.
segments() {
	local list=(/dev/shm/vader_segment.*."$(id -u)"."$1".*)
	[ -e "${list[0]}" ] && echo ${#list[@]} || echo 0
}
kill_launcher() {
	"$1" -n 3 "$tomos" recon scan.h5 --method cgls --iterations 100000000 -o killed.npy >out 2>err &
	local job=$! number
	until_true 60 grep -q '^plan' out && until_true 10 victim_of killed.npy || { bad "$1: no rank 2"; kill -9 $job; return; }
	number=$(tr '\0' '\n' <"/proc/$process/environ" | sed -n 's/^PMIX_NAMESPACE=//p')
	number=$(printf '%x' "${number:-0}")
	[ "$(segments "$number")" -gt 0 ] || echo "# $1: no shared memory in /dev/shm"
	kill -9 $job
	until_true 30 eval "[ \"\$(segments $number)\" = 0 ] && ! victim_of killed.npy" && ok "$1 killed" ||
		bad "$1 killed: $(segments "$number") segments are left"
	wait $job 2>/dev/null
}
[ "${launchers[0]}" != mpirun.openmpi ] || kill_launcher mpirun.openmpi
for launcher in "${launchers[@]}"; do
	kill_one "$launcher" no
	[ "$launcher" = mpirun.openmpi ] && kill_one "$launcher" yes
done
[ "$failures" = 0 ]
