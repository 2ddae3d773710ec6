# A rank is killed at a random moment, in most cases after some slabs were written: the job ends within 10 s, a message
# names the rank or the process, nothing has the name of the output; then --resume with another number of ranks: the
# volume of a run that was left alone, and only what is missing is computed.
#
#   long_ranks_kill.sh COMMAND SOURCES BUILD     TOMOS_KILLS: how many (50)   TOMOS_SEED: of what is random (1)
. "$2/tests/run/ranks_help.sh"
kills=${TOMOS_KILLS:-50}
RANDOM=${TOMOS_SEED:-1}
# On processors: the rounding of FBP on GPUs differs with the height of slabs, and numbers are compared bit by bit.
export OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=
"$tomos" project shepp-logan --columns 192 --rows 128 --views 240 --noise 0.05 -q -o scan.h5 || exit 1
"$tomos" project shepp-logan --geometry cone --source-axis 4 --source-detector 6 --columns 160 --rows 96 --views 200 \
	--noise 0.05 -q -o cone.h5 || exit 1
# Scan, output, options: several slabs on each rank.
formats=("scan volume.h5 --memory 40M" "scan packed.h5 --compress 1 --memory 40M" "scan volume.npy --memory 40M"
	"cone cone.npy --memory 64M" "scan slices/ --memory 40M" "scan volume.zarr --memory 80M"
	"cone groups.npy --memory 64M" "scan volume.mhd --memory 40M" "scan sums.h5 --method cgls --iterations 4 --memory 150M"
	"scan volume.tif --memory 40M")
killed=0 named=0 resumed=0 case=0 other=0

# Slices that the journals of a run say are finished.
finished() { cat work/.*journal* 2>/dev/null | awk '/^[0-9]+ [0-9]+ / && NF == $2 + 2 {sum += $2} END {print sum + 0}'; }

# The output of a case and that of one process: the same numbers, or FDK to rounding.
compare() {
	local key=${out//\//_}
	if [ ! -e "whole_$key.npy" ]; then
		mkdir -p alone
		# shellcheck disable=SC2086
		(cd alone && "$tomos" recon "$folder/$scan.h5" -q -o "$out" $options) || bad "a run that is left alone"
		"$tomos" convert -q "alone/$out" "whole_$key.npy" 2>/dev/null || bad "$out cannot be converted"
		rm -rf alone
	fi
	rm -f numbers.npy
	"$tomos" convert -q "work/$out" numbers.npy 2>/dev/null || bad "case $case: $out cannot be read"
	cmp -s "whole_$key.npy" numbers.npy && return
	[ "$scan" = cone ] && "$tomos" compare "whole_$key.npy" numbers.npy >out 2>err &&
		awk '/^relative L2/ {exit !($3 <= 1e-6)}' out || bad "case $case: $out with $count and $other ranks: other numbers"
}

# A random one of the processes of the job, once their guard is there, a child of one of them: before that, no rank has
# a number yet.
choose_victim() {
	local all pid i
	for ((i = 0; i < 100; i++)); do
		all=() victims=()
		mapfile -t all < <(pgrep -f "^$tomos recon $folder/$scan.h5 -q")
		for pid in "${all[@]}"; do
			[[ " ${all[*]} " == *" $(ps -o ppid= -p "$pid" | tr -d ' ') "* ]] || victims+=("$pid")
		done
		[ ${#all[@]} -gt ${#victims[@]} ] && break
		kill -0 $job 2>/dev/null || return 1
		sleep 0.01
	done
	[ ${#victims[@]} -gt 0 ] && victim=${victims[$((RANDOM % ${#victims[@]}))]}
}

# Some jobs are complete before the kill, so that there may have to be more than asked for.
while { [ $killed -lt "$kills" ] || [ $resumed -lt $((kills / 2)) ]; } && [ $case -lt $((4 * kills)) ]; do
	read -r scan out options <<<"${formats[$((case % ${#formats[@]}))]}"
	launcher=${launchers[$((case / ${#formats[@]} % ${#launchers[@]}))]}
	case=$((case + 1)) count=$((2 + RANDOM % 4)) groups=""
	if [ "$out" = groups.npy ]; then count=4 groups="--view-groups 2"; fi
	rm -rf work && mkdir work
	# shellcheck disable=SC2086
	(cd work && exec timeout -k 5 60 "$launcher" -n $count "$tomos" recon "$folder/$scan.h5" -q -o "$out" $options $groups) \
		>out 2>err &
	job=$!
	if [ $((case % 5)) = 0 ]; then
		sleep "0.$((1 + RANDOM % 9))" # possibly before the first slab
	else
		least=$((1 + RANDOM % 60))
		for ((i = 0; i < 400; i++)); do
			[ "$(finished)" -ge $least ] && break
			kill -0 $job 2>/dev/null || break
			sleep 0.02
		done
	fi
	choose_victim || { wait $job; continue; }
	kill -9 "$victim" 2>/dev/null
	begin=$SECONDS
	if wait $job 2>/dev/null; then
		continue # it was done before
	fi
	killed=$((killed + 1))
	[ $((SECONDS - begin)) -le 10 ] || bad "case $case: $launcher, $count ranks: ended $((SECONDS - begin)) s later"
	# A launcher that has failed itself may end before the message is written.
	for ((i = 0; i < 50; i++)); do
		grep -qE 'rank [0-9]+|PID [0-9]+' out err && break
		sleep 0.1
	done
	[ "$i" -lt 50 ] || bad "case $case: no message that says which process ended"
	if grep -q "^tomos: rank [0-9]* (process $victim)" err; then
		named=$((named + 1)) # unless it was killed while the program was still loaded
	elif grep -q "^tomos: rank" err; then
		bad "case $case: another process than $victim is named"
	fi
	if [ -e "work/${out%/}" ]; then # it was complete before
		compare
		continue
	fi
	other=$((1 + RANDOM % 4)) done_before=$(finished)
	# shellcheck disable=SC2086
	(cd work && timeout -k 5 120 "$launcher" -n $other "$tomos" recon "$folder/$scan.h5" -o "$out" --resume $options) \
		>out 2>err || bad "case $case: $out, resume with $other ranks failed"
	taken=$(sed -n 's/^resumed *\([0-9]*\).*/\1/p' out)
	[ "${taken:-0}" = "$done_before" ] || bad "case $case: $out: $done_before slices were finished, ${taken:-0} were kept"
	[ "${taken:-0}" -gt 0 ] && resumed=$((resumed + 1))
	[ -z "$(find work -mindepth 1 -name '.*')" ] || bad "case $case: left $(ls -A work)"
	compare
done
echo "$killed killed, $named of them named by number, $resumed resumed from finished slices, $failures failures"
[ $killed -ge "$kills" ] || bad "only $killed kills"
[ $resumed -ge $((kills / 2)) ] || bad "only $resumed of $kills were resumed from finished slices"
[ "$failures" = 0 ]
