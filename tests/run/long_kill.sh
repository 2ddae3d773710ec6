#!/usr/bin/env bash
# A run killed at random moments, 200 times: nothing under the final name, and --resume gives the same
# bytes every time.
set -u
tomos=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
"$tomos" project shepp-logan-2d-modified --columns 256 --rows 96 --views 300 -q -o scan.h5 || exit 1
run() { "$tomos" recon scan.h5 -q --memory 110M $options -o "$@"; }
failed=0
for out in volume.h5 volume.npy slices/ volume.mhd packed.h5; do
	options=$([ "$out" = packed.h5 ] && echo --compress 1)
	rm -rf "$out" whole
	begin=$(date +%s%N)
	run "$out" || exit 1
	span=$((($(date +%s%N) - begin) / 1000000))
	mv "$out" whole
	[ "$out" = volume.mhd ] && mv volume.raw whole.raw
	for i in $(seq 40); do
		"$tomos" recon scan.h5 -q --memory 110M $options -o "$out" &
		job=$!
		sleep "$(printf '0.%03d' $((RANDOM % (span < 999 ? span + 1 : 999))))"
		kill -9 $job 2>/dev/null
		if wait $job 2>/dev/null; then
			[ -e "$out" ] || failed=$((failed + 1))
		else
			[ -e "$out" ] && ! diff -rq whole "$out" >/dev/null && failed=$((failed + 1))
			[ -e "$out" ] || run "$out" --resume || failed=$((failed + 1))
		fi
		diff -rq whole "$out" >/dev/null || { echo "$out, kill $i: other bytes"; failed=$((failed + 1)); }
		if [ "$out" = volume.mhd ] && ! cmp -s whole.raw volume.raw; then
			echo "volume.raw, kill $i: other bytes"
			failed=$((failed + 1))
		fi
		rm -rf "$out" volume.raw
	done
done
echo "$failed failed"
[ "$failed" = 0 ]
