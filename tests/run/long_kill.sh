#!/usr/bin/env bash
# tomos recon killed at random moments, in every output format and of SIRT by slabs, what is left damaged in half of the
# cases, then --resume: the same bytes as a run that was left alone and no other file, or an error
# message; never a wrong volume with status 0.
#
#   long_kill.sh COMMAND        TOMOS_KILLS: how many (500)   TOMOS_SEED: of what is random (1)
#   TOMOS_KILL_MEMORY: limit of the runs (13M)   TOMOS_KILL_SCAN: size of the scan
#   TOMOS_KILL_ONLY: "volume.h5 slices/", some of the outputs   TOMOS_KILL_ROUNDING: by which iterates may differ (0)
#   TOMOS_KILL_WRITING=1: only after the journal of the output was begun, where a device takes long to start
#   TOMOS_KILL_SECONDS: ends after these, with fewer kills, where the time of a machine is limited (no limit)
# On a GPU several slabs of data in its memory take a larger scan, and no limit, and the order of its sums is not fixed:
#   TOMOS_KILL_MEMORY=0 TOMOS_KILL_SCAN="--columns 256 --rows 128 --views 200" TOMOS_KILL_ROUNDING=1e-6
set -u
tomos=$(readlink -f "$1")
kills=${TOMOS_KILLS:-500}
RANDOM=${TOMOS_SEED:-1}
memory=${TOMOS_KILL_MEMORY:-13M}
rounding=${TOMOS_KILL_ROUNDING:-0}
seconds=${TOMOS_KILL_SECONDS:-}
in_time() { [ -z "$seconds" ] || [ $SECONDS -lt "$seconds" ]; }
scan=${TOMOS_KILL_SCAN:---columns 96 --rows 64 --views 100}
# A disk would spend most of the time on bringing small files to it.
scratch=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
begun=0 resumed=0 damaged=0 again=0 messages=0 failed=0
finish() {
	echo "$begun killed, what was left of $damaged damaged; $resumed went on from finished slices," \
		"$again with a warning, $messages ended with a message; $failed failed"
	rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 1' TERM
cd "$scratch" || exit 1
# Noise, so that all slices differ.
# shellcheck disable=SC2086
"$tomos" project shepp-logan $scan --noise 0.05 -q -o scan.h5 || exit 1
formats=("volume.h5" "packed.h5 --compress 1" "volume.npy" "volume.tif" "slices/" "volume.mha"
	"volume.mhd" "volume.raw" "volume.ome.zarr --memory ${memory/13M/24M}" "counts.npy --type uint16"
	"counts/ --type uint8" "iterated.npy --memory ${memory/13M/97M} --method sirt --iterations 3"
	"iterated.h5 --memory ${memory/13M/97M} --method sirt --iterations 3")

if [ "${TOMOS_KILL_ONLY:-}" ]; then
	chosen=()
	for row in "${formats[@]}"; do
		[[ " $TOMOS_KILL_ONLY " == *" ${row%% *} "* ]] && chosen+=("$row")
	done
	formats=("${chosen[@]}")
fi

bad() {
	echo "FAILED: $out, case $case, $moment ms${damage:+, $damage}: $1"
	cat err
	failed=$((failed + 1))
}
recon() { (cd work && "$tomos" recon ../scan.h5 --memory "$memory" "$@" -o "$out" $options) >said 2>err; }
# In the background; until it has begun its output, if only such moments are wanted.
start() {
	begin=$(date +%s%N)
	(cd work && exec "$tomos" recon ../scan.h5 --memory "$memory" -q -o "$out" $options) 2>err &
	job=$!
	[ "${TOMOS_KILL_WRITING:-}" ] || return
	until grep -qs '^ready' work/.*.journal || ! kill -0 $job 2>/dev/null; do sleep 0.002; done
	begin=$(date +%s%N)
}
random() { echo $(((RANDOM * 32768 + RANDOM) % ($1 > 0 ? $1 : 1))); }

# One of the files that were left, cut off, with zeros in it, with a bit flipped, longer, or gone.
damage_one() {
	local files file size at byte
	mapfile -t files < <(find work -type f -path 'work/.*' | sort)
	[ ${#files[@]} -gt 0 ] || return
	file=${files[$(random ${#files[@]})]}
	size=$(stat -c %s "$file")
	at=$(random "$size")
	case $((RANDOM % 5)) in
	0) damage="cut to $at of $size bytes" && truncate -s "$at" "$file" ;;
	1)
		damage="zeros from $at of $size"
		dd if=/dev/zero of="$file" bs=1 seek="$at" count=$((size - at < 4096 ? size - at : 4096)) \
			conv=notrunc status=none
		;;
	2)
		damage="bit flipped at $at of $size"
		byte=$(od -An -tu1 -j "$at" -N 1 "$file")
		[ "$size" -gt 0 ] && printf "\\x$(printf %x $((byte ^ (1 << RANDOM % 8))))" |
			dd of="$file" bs=1 seek="$at" conv=notrunc status=none
		;;
	3) damage="longer" && head -c $((1 + RANDOM % 5000)) /dev/urandom >>"$file" ;;
	4) damage="gone" && rm "$file" ;;
	esac
	damage="${file#work/} $damage"
	damaged=$((damaged + 1))
}

# HDF5 and Zarr files hold the command, which may say --resume, so their numbers are compared.
holds_command() { [ "${out%.h5}" != "$out" ] || [ "${out%.zarr}" != "$out" ]; }

# What ended well.
compare() {
	if [ "${out#iterated}" != "$out" ] && [ "$rounding" != 0 ]; then
		"$tomos" compare "whole/$out" "work/$out" --max "$rounding" >different 2>&1 ||
			bad "other numbers: $(cat different)"
		[ "$(ls -A work)" = "$out" ] || bad "other files: $(ls -A work)"
		return
	fi
	if ! holds_command; then
		diff -r whole work >different 2>&1 || bad "other files: $(head -3 different)"
		return
	fi
	[ "${out%.h5}" = "$out" ] || "$tomos" info "work/$out" --verify >different 2>&1 ||
		bad "not what was written: $(cat different)"
	rm -f numbers.npy
	"$tomos" convert -q "work/$out" numbers.npy 2>err && cmp -s whole.npy numbers.npy || bad "other numbers"
	[ "$(ls -A work)" = "$out" ] || bad "other files: $(ls -A work)"
}

for number in "${!formats[@]}"; do
	read -r out options <<<"${formats[$number]}"
	in_time || break
	rm -rf whole work && mkdir work
	damage="" moment=none case=0
	start
	wait $job || { bad "a run that is left alone"; continue; }
	span=$((($(date +%s%N) - begin) / 1000000))
	mv work whole
	rm -f whole.npy
	! holds_command || "$tomos" convert -q "whole/$out" whole.npy || exit 1
	# Runs that were done before the kill do not count, but some of these are wanted as well.
	while [ $begun -lt $((kills * (number + 1) / ${#formats[@]})) ] && [ $case -lt $((2 * kills)) ] && in_time; do
		mkdir work
		case=$((case + 1)) damage="" moment=$(random $((span + span / 16)))
		start
		sleep "$(printf '%d.%03d' $((moment / 1000)) $((moment % 1000)))"
		kill -9 $job 2>/dev/null
		if wait $job 2>/dev/null; then
			compare # it was done before
		else
			begun=$((begun + 1))
			[ $((RANDOM % 2)) = 0 ] && damage_one
			if recon --resume; then
				grep -q '^resumed   [1-9]' said && resumed=$((resumed + 1))
				grep -q '^warning: ' said err && again=$((again + 1))
				compare
			else
				messages=$((messages + 1))
				[ "$(grep -c '^tomos recon: ' err)" -ge 1 ] || bad "no message"
				recon --overwrite || bad "cannot be begun again"
				compare
			fi
		fi
		rm -rf work
	done
done 2> >(grep -v ' Killed ' >&2)
! in_time || [ $begun = "$kills" ] || { echo "$begun kills, not $kills"; failed=$((failed + 1)); }
[ "$failed" = 0 ]
