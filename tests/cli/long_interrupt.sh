#!/usr/bin/env bash
# Ctrl-C at random moments of nine commands while both cores are loaded: the time until the program has
# ended, the last whole iterate written by iterative methods, and nothing left beside it.
# TOMOS_MOMENTS: how many (100).
set -u
tomos=$1
moments=${TOMOS_MOMENTS:-100}
scratch=$(mktemp -d)
load=()
trap 'kill "${load[@]}" 2>/dev/null; rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
export HOME=$scratch XDG_CACHE_HOME=$scratch/cache XDG_CONFIG_HOME=$scratch/config
mkdir cache config work
failed=0
bad() {
	echo "FAILED: $1"
	failed=$((failed + 1))
}

# ---- the scans, made in quiet -------------------------------------------------------------------
make() { "$tomos" "$@" -q || exit 1; }
cone() { echo --geometry cone --source-axis 6 --source-detector 9 --pixel "$1" --rows "$2" --columns "$2" --views "$3"; }
make project shepp-logan-modified --rows 192 --columns 384 --views 800 -o parallel.h5
make project shepp-logan-modified $(cone 0.0164 192 480) -o large.h5
make project shepp-logan-modified $(cone 0.0328 96 90) -o cone.h5
make project shepp-logan-2d-modified --columns 192 --views 90 -o slice.h5
make phantom shepp-logan-modified --size 192 -o volume.h5
make project shepp-logan-2d-modified --columns 2000 --rows 4 --views 900 -o wide.h5

words() {
	case $1 in
	fbp) echo recon parallel.h5 -o work/v.npy ;;
	fdk) echo recon large.h5 -o work/v.h5 ;;
	sirt) echo recon cone.h5 --method sirt --iterations 100000 -o work/v.h5 ;;
	fista) echo recon cone.h5 --method fista --strength 0.001 --iterations 100000 -o work/v.h5 ;;
	pdhg) echo recon cone.h5 --method pdhg --strength 0.001 --iterations 100000 -o work/v.h5 ;;
	art) echo recon slice.h5 --method art --iterations 100000 -o work/v.h5 ;;
	project) echo project volume.h5 $(cone 0.0164 192 2000) -o work/v.h5 ;;
	center) echo center wide.h5 --sheet work/sheet.png --sweep 900:1099:0.5 ;;
	tune) echo tune --size 512 --views 1000 --seconds 1000 ;;
	esac
}

# The iterate that was written is the one of a run of as many iterations.
check_iterate() {
	local count
	count=$(sed -n 's/.*interrupted after \([0-9]*\) iteration.*/\1/p' err)
	if [ ! -e work/v.h5 ]; then
		[ -z "$count" ] || bad "$1: $count iterations, but no volume"
		return
	fi
	[ -n "$count" ] || { bad "$1: a volume, and no message"; return; }
	"$tomos" $(words "$1" | sed "s,100000,$count,; s,work,check,") -q --overwrite || bad "$1: check"
	"$tomos" compare check/v.h5 work/v.h5 >same
	grep -q "relative L2  *0$" same || bad "$1: iterate $count is another: $(head -1 same)"
}

check_left() {
	grep -q "is kept, and --resume" err && rm -rf work/.v.*
	rm -f work/v.h5
	[ -z "$(ls -A work)" ] || bad "$1: left: $(ls -A work)"
}

moment() {
	local name=$1 pid begin status span
	rm -rf work && mkdir -p work check
	env --default-signal=INT "$tomos" $(words "$name") >out 2>err &
	pid=$!
	# Until env has restored the signal and started the program, it is ignored.
	until [ "/proc/$pid/exe" -ef "$tomos" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
	sleep "$(printf '%d.%03d' $((RANDOM % 4)) $((RANDOM % 1000)))"
	begin=$(date +%s%N)
	if ! kill -INT $pid 2>/dev/null; then
		echo "$name ended before its signal"
		wait $pid
		return
	fi
	wait $pid
	status=$?
	span=$((($(date +%s%N) - begin) / 1000000))
	if [ $status = 0 ]; then return; fi # it ended by itself at that moment
	[ $status = 130 ] || bad "$name: status $status: $(tail -1 err)"
	echo "$span $name" >>times
	case $name in sirt | fista | pdhg | art) check_iterate "$name" ;; esac
	check_left "$name"
}

for _ in 1 2; do
	(while :; do :; done) &
	load+=($!)
done
names=(fbp fdk sirt fista pdhg art project center tune)
for ((i = 0; i < moments; i++)); do
	moment "${names[i % ${#names[@]}]}"
done

sort -n times >sorted
count=$(wc -l <sorted)
at() { sed -n "$(((count * $1 + 99) / 100))p" sorted; }
echo "$count moments: p50 $(at 50), p99 $(at 99), most $(tail -1 sorted) (milliseconds until the end)"
for name in "${names[@]}"; do
	echo "$name: most $(grep " $name$" sorted | tail -1 | cut -d' ' -f1) ms of $(grep -c " $name$" sorted)"
done
[ "$count" -ge $((moments * 3 / 4)) ] || bad "only $count of $moments moments met a program at work"
limit=$(at 99)
[ "${limit%% *}" -lt 1000 ] || bad "p99 is $limit ms"
echo "$failed failed"
[ "$failed" = 0 ]
