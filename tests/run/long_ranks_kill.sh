# A rank is killed at a random moment: the job ends within 10 s, the launcher names the rank or the process, nothing has
# the name of the output; then --resume with another number of ranks: the volume of a run that was left alone.
#
#   long_ranks_kill.sh COMMAND SOURCES BUILD     TOMOS_KILLS: how many (50)   TOMOS_SEED: of what is random (1)
. "$2/tests/run/ranks_help.sh"
kills=${TOMOS_KILLS:-50}
RANDOM=${TOMOS_SEED:-1}
"$tomos" project shepp-logan --columns 160 --rows 96 --views 200 --noise 0.05 -q -o scan.h5 || exit 1
formats=("volume.h5" "packed.h5 --compress 1" "volume.npy" "slices/" "volume.mhd" "volume.tif"
	"sums.h5 --method cgls --iterations 4 --memory 150M")
killed=0 named=0 resumed=0 case=0 other=0

# The output of a case and that of one process.
compare() {
	local key=${out//\//_}
	if [ ! -e "whole_$key.npy" ]; then
		mkdir -p alone
		# shellcheck disable=SC2086
		(cd alone && "$tomos" recon ../scan.h5 -q -o "$out" $options) || bad "a run that is left alone"
		"$tomos" convert -q "alone/$out" "whole_$key.npy" 2>/dev/null || bad "$out cannot be converted"
		rm -rf alone
	fi
	rm -f numbers.npy
	"$tomos" convert -q "work/$out" numbers.npy 2>/dev/null && cmp -s "whole_$key.npy" numbers.npy ||
		bad "case $case: $out with $count and $other ranks: other numbers"
}

while [ $killed -lt "$kills" ] && [ $case -lt $((4 * kills)) ]; do
	read -r out options <<<"${formats[$((case % ${#formats[@]}))]}"
	launcher=${launchers[$((case % ${#launchers[@]}))]}
	[[ $options == *--memory* ]] || options="$options --memory 30M" # several slabs
	case=$((case + 1)) count=$((2 + RANDOM % 4))
	rm -rf work && mkdir work
	# shellcheck disable=SC2086
	(cd work && exec timeout -k 5 60 "$launcher" -n $count "$tomos" recon ../scan.h5 -q -o "$out" $options) \
		>out 2>err &
	job=$!
	sleep "0.$((1 + RANDOM % 9))"
	mapfile -t ranks_of < <(pgrep -f "^$tomos recon ../scan.h5 -q" | head -$count)
	[ ${#ranks_of[@]} -gt 0 ] || { wait $job; continue; }
	victim=${ranks_of[$((RANDOM % ${#ranks_of[@]}))]}
	kill -9 "$victim" 2>/dev/null
	begin=$SECONDS
	if wait $job 2>/dev/null; then
		continue # it was done before
	fi
	killed=$((killed + 1))
	[ $((SECONDS - begin)) -le 10 ] || bad "case $case: $launcher, $count ranks: ended $((SECONDS - begin)) s later"
	grep -qE 'rank [0-9]+|PID [0-9]+' out err || bad "case $case: no message that says which process ended"
	if grep -q "^tomos: rank [0-9]* (process $victim)" err; then
		named=$((named + 1)) # unless it was killed while the program was still loaded
	elif grep -q "^tomos: rank" err; then
		bad "case $case: another process than $victim is named"
	fi
	if [ -e "work/${out%/}" ]; then # it was complete before
		compare
		continue
	fi
	other=$((1 + RANDOM % 4))
	# shellcheck disable=SC2086
	(cd work && timeout -k 5 120 "$launcher" -n $other "$tomos" recon ../scan.h5 -o "$out" --resume $options) \
		>out 2>err || bad "case $case: $out, resume with $other ranks failed"
	grep -q '^resumed   [1-9]' out && resumed=$((resumed + 1))
	[ -z "$(find work -name '.*')" ] || [ "$(find work -name '.?*')" = "" ] || bad "case $case: left $(ls -A work)"
	compare
done
echo "$killed killed, $named of them named by number, $resumed resumed from finished slices, $failures failures"
[ $killed = "$kills" ] || bad "only $killed kills"
[ "$failures" = 0 ]
