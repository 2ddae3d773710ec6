# Methods, geometries and numbers of ranks: the volumes of one process.
#
#   long_ranks.sh COMMAND SOURCES BUILD     TOMOS_RANKS: numbers of ranks   TOMOS_PARTS: some of "slabs shared many"
#                                           TOMOS_LAUNCHERS: some of "openmpi mpich"
. "$2/tests/run/ranks_help.sh"
make() { "$tomos" project shepp-logan -q --columns 40 --noise 0.02 "$@" || exit 1; }
cone="--geometry cone --source-axis 4 --source-detector 6 --rows 29"
make --rows 37 --views 40 -o parallel.h5
make --geometry fan --source-axis 4 --source-detector 6 --rows 33 --views 48 -o fan.h5
# shellcheck disable=SC2086
make $cone --views 48 -o cone.h5
# shellcheck disable=SC2086
make $cone --views 36 --arc 220 -o short.h5
# shellcheck disable=SC2086
make $cone --views 48 --axis 13 -o offset.h5
# As many rows as the kernels need that ranks of one slab compute together.
make --geometry cone --source-axis 4 --source-detector 6 --rows 37 --views 48 -o tall.h5
make --geometry laminography --tilt 30 --rows 33 --views 40 -o laminography.h5
make --geometry helix --pitch 1 --arc 1080 --source-axis 4 --source-detector 6 --rows 21 --views 90 -o helix.h5

iterate="--iterations 20"
parts=" ${TOMOS_PARTS:-slabs shared many} "
penalised=("fista --regulariser tv --strength 0.01" "pdhg --strength 0.01")
# Slabs alone.
campaign() {
	local count=$1 scan method
	several=(--view-groups 1)
	same "parallel, FBP" "$count" recon ../parallel.h5 -q -o v.h5
	same "fan, FBP" "$count" recon ../fan.h5 -q -o v.h5
	for scan in cone short offset; do
		near "$scan, FDK" "$count" 1e-6 recon ../$scan.h5 -q -o v.npy
	done
	for scan in parallel fan cone short offset laminography helix; do
		for method in sirt cgls sart "${penalised[@]}"; do
			# shellcheck disable=SC2086
			near "$scan, $method" "$count" 1e-5 recon ../$scan.h5 -q --method $method $iterate -o v.npy
		done
	done
	several=()
}
# Slabs that ranks share: these divide the views.
shared() {
	local count=$1 scan method
	several=(--view-groups "$2")
	for scan in cone short offset; do
		near "$scan, FDK, $2 view groups" "$count" 1e-6 recon ../$scan.h5 -q -o v.npy
	done
	for scan in cone tall short offset laminography helix; do
		for method in sirt cgls "${penalised[@]}"; do
			# shellcheck disable=SC2086
			near "$scan, $method, $2 view groups" "$count" 1e-5 recon ../$scan.h5 -q --method $method $iterate -o v.npy
		done
	done
	several=()
}
# Every case with each MPI.
for ((pass = 0; pass < ${#launchers[@]}; pass++)); do
	for count in ${TOMOS_RANKS:-1 2 3 4 7 8}; do
		turn=$pass
		[[ $parts != *" slabs "* ]] || campaign "$count"
		turn=$pass
		[[ $parts != *" shared "* || $((count % 2)) = 1 ]] || shared "$count" 2
	done
	[[ $parts == *" shared "* ]] || continue
	turn=$pass
	shared 3 3
	turn=$pass
	shared 8 4
done

# Many iterations: no growth of memory, and an end. Views of a small arc, so that CGLS does not converge before.
"$tomos" project shepp-logan -q --geometry cone --source-axis 4 --source-detector 6 --columns 24 --rows 12 --views 40 \
	--arc 80 --noise 0.05 -o small.h5 || exit 1
for launcher in "${launchers[@]}"; do
	[[ $parts == *" many "* ]] || continue
	for count in 100 10000; do
		/usr/bin/env time -f '%M' -o peak$count timeout 1800 "$launcher" -n 3 "$tomos" recon small.h5 --method cgls \
			--view-groups 1 --iterations $count --overwrite -o v.npy >out 2>err || bad "$launcher: $count iterations"
		grep -q "^cgls: $count iterations" out || bad "$launcher: $(grep '^cgls' out | tail -1), not $count iterations"
	done
	if [ "$(tail -1 peak10000)" -gt $(($(tail -1 peak100) * 11 / 10)) ]; then
		bad "$launcher: 10000 iterations need $(tail -1 peak10000) KiB, 100 need $(tail -1 peak100)"
	else
		ok "$launcher: 10000 iterations need $(tail -1 peak10000) KiB, 100 need $(tail -1 peak100)"
	fi
done
echo "$failures failures"
[ "$failures" = 0 ]
