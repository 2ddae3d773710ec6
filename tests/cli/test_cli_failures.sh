#!/bin/bash
# Tuning, damaged input, Ctrl-C, progress in a log and a full disk.
#
#   test_cli_failures.sh COMMAND SOURCES BUILD
# shellcheck source=tests/cli/cli_help.sh
. "$2/tests/cli/cli_help.sh"
make_files
make project p.h5 --views 40 --rows 12 --columns 34 -o rows12.h5
make convert p.h5 c.npy
make convert c.npy c.tiff
make convert s.h5 s.npy
make project ball --angles 0,60,120 --columns 5 --rows 1 -o s3.h5
make convert s3.h5 s3.json
: >list

# ---- tuning ------------------------------------------------------------------------------------
export XDG_CACHE_HOME=$folder/cache
check "tune where it is off" 2 tune --size 32 --views 8
has "its message" err "TOMOS_TUNE is off, so tuning results are not stored"
unset TOMOS_TUNE
check "nothing measured yet" 0 tune --show --backend cpu
has "its message" out "nothing was measured on this device"
check "tune" 0 tune --size 32 --views 8 --slices 4 --seconds 1 --backend cpu
has "where it is kept" out "wrote $folder/cache/tomos/tune-cpu-"
check "tune --show" 0 tune --show --backend cpu
has "the rates" out "sums    at most"
if grep -Eq '^voxel  back    float slices    32\^2 +4 +8 +32 [* ] [a-z]+ ' out; then
	ok "what was measured"
else
	bad "no row of what was measured"
fi
sed -i 's/^kernel [^ ]*/kernel gone/' cache/tomos/tune-cpu-*
check "a kernel that is there no more" 0 tune --show --backend cpu
has "its message" out "no kernel of this build, ignored"
printf 'tomos tune 2\nrubbish' >cache/tomos/tune-cpu-*
check "a broken file is not fatal" 0 tune --show --backend cpu
has "nor used" out "nothing was measured on this device"
has "but told of" err "cannot be used: it is of another version; measure again"
has "by its name" out "file    $folder/cache/tomos/tune-cpu-"
check "tune for a scan" 0 tune s.h5 --seconds 0.5 --backend cpu
check "tune --forget" 0 tune --forget --backend cpu
has "what is gone" out "removed $folder/cache/tomos/tune-cpu-"
check "tune --forget again" 0 tune --forget --backend cpu
has "nothing there" out "nothing to remove: there is no $folder/cache/tomos/tune-cpu-"
check "forgotten" 0 tune --show --backend cpu
has "its message" out "nothing was measured on this device"
check "tune with sizes twice" 2 tune s.h5 --views 8
has "its message" err "--views: the sizes are those of 's.h5'"
check "two wishes" 2 tune --show --forget
has "its message" err "--show and --forget: give one of them"
check "negative slices" 2 tune --slices -1
has "its message" err "--slices and --columns must not be negative"
check "no time" 2 tune --size 32 --views 8 --seconds 0 --backend cpu
has "its message" err "0 seconds to measure in"
export XDG_CACHE_HOME=/dev/null/cache
check "nowhere to keep it" 1 tune --size 32 --views 8 --backend cpu
has "its message" err "the directory '/dev/null/cache' cannot be created"
check "nowhere to look" 0 tune --show --backend cpu
export TOMOS_TUNE=off
unset XDG_CACHE_HOME

check "-- ends the options" 1 info -- --help
has "an operand with hyphens" err "--help"

# ---- broken inputs -----------------------------------------------------------------------------
check "file that is not there" 1 info nofile.h5
has "its message names it" err "nofile.h5"
head -c 3000 p.h5 >short.h5
check "truncated HDF5" 1 project short.h5 --views 4 -o x2.h5
has "says by how much" err "it is truncated, $(stat -c %s short.h5) of $(stat -c %s p.h5) bytes are left"
head -c 300 c.npy >short.npy
check "truncated npy" 1 project short.npy --views 4 -o x2.h5
has "its message names it" err "short.npy"
head -c 500 c.tiff >short.tiff
check "truncated TIFF" 1 project short.tiff --views 4 -o x2.h5
npy '2, 2' '\0\0\200\77\0\0\300\177\0\0\200\77\0\0\200\177' >nan.npy
printf '\x93NUMPY\x01\x00v\x00%-117s\n' "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }" >huge.npy
printf '\234\165\000\210\074\344\067\176' >>huge.npy # 1e300
check "a number beyond float32" 1 info huge.npy
has "its message" err "'huge.npy': 1e+300 does not fit float32"
check "NaN in a volume" 1 project nan.npy --views 4 -o x2.h5
has "its message" err "not finite"
has "counts them" err "2 values"
check "NaN in projections" 1 backproject nan.npy --views-file s3.json -o x2.h5
check "NaN in a comparison" 1 compare nan.npy nan.npy
check "info counts them" 0 info nan.npy
has "two of four" out "non-finite 2 of 4"
check "show draws the rest" 0 show nan.npy -o nan.png
check "views file that is not JSON" 1 backproject s.npy --views-file list -o x2.h5
check "a directory without pictures" 1 info .
absent x2.h5
clean "broken inputs"

# ---- Ctrl-C ------------------------------------------------------------------------------------
# interrupt WHAT SIGNALS WORDS...: sends them, a second apart, once the output is under construction.
interrupt() {
	local what=$1 signals=$2 pid i
	shift 2
	ls -A >before
	"$tomos" "$@" >out 2>err &
	pid=$!
	for ((i = 0; i < 300; i++)); do
		[ -n "$(find . -name '*.part*')" ] && break
		sleep 0.1
	done
	sleep 0.5
	for i in $signals; do
		kill -$i $pid 2>/dev/null
	done
	wait $pid
	local got=$?
	if [ $got = 130 ]; then ok "$what: status 130"; else bad "$what: status $got, not 130"; fi
	has "$what: its message" err "interrupted; "
	ls -A >after
	if cmp -s before after; then ok "$what: nothing is left"; else bad "$what: files are left"; fi
}
touch before after out err
# An algebraic method ends with its last iterate.
rm -f stopped.h5
"$tomos" recon rows12.h5 --method sirt --iterations 100000000 --checkpoint state -o stopped.h5 >out 2>err &
pid=$!
for _ in $(seq 300); do
	sleep 0.1
	if [ -e state ]; then break; fi
done
kill -INT $pid
wait $pid
if [ $? = 130 ]; then ok "recon: status 130"; else bad "recon: another status than 130"; fi
has "recon: its message" err "iterations; 'stopped.h5' is the last one, and --resume --overwrite goes on"
there stopped.h5
there state
check "the last iterate can be read" 0 info stopped.h5
has "says that it was interrupted" out " (interrupted)"
check "a whole run" 0 recon rows12.h5 --method sirt --iterations 3 -o whole.zarr
check "its iterations" 0 info whole.zarr
has "says how many there were" out "iterations 3"
rm -rf whole.zarr
clean "an interrupted recon"
rm -f stopped.h5
# Of several slabs none is done, but the checkpoint of the first is there.
"$tomos" project ball --views 100 --columns 128 --rows 64 -o slabs.h5 -q
"$tomos" recon slabs.h5 --method sirt --iterations 100000 --checkpoint slabs --every 1 --memory 100M \
	--threads 1 -o stopped.h5 >out 2>err &
pid=$!
for _ in $(seq 300); do
	sleep 0.1
	if ls | grep -q "^slabs[.][0-9]"; then break; fi
done
kill -INT $pid
wait $pid
has "recon in slabs: its message" err "but --resume goes on from the checkpoint 'slabs'"
rm -f slabs.h5 slabs.[0-9]*
for signal in INT HUP TERM; do
	interrupt "project, $signal" $signal project random --count 100 --samples $samples --rows 200 \
		--columns 200 --views 500 -o stopped.h5
	has "says what is left" err "interrupted; nothing was written"
done
# One step of half a minute ends within itself, also where a second signal follows at once.
check "a larger scan" 0 project ball --views 300 --columns 200 --rows 200 -o large.h5
for signals in INT "INT INT"; do
	start=$SECONDS
	interrupt "backproject, $signals" "$signals" backproject large.h5 --forward line --plain --size 200 \
		--threads 1 -o stopped.h5
	if [ $((SECONDS - start)) -le 10 ]; then ok "at once"; else bad "it took $((SECONDS - start)) s"; fi
done
# It is shown before its first step has ended, also where their number is unknown.
for words in "backproject large.h5 --forward line --plain --size 200" "recon large.h5 --method fista --strength 1e-9 --size 200 --forward line --plain"; do
	"$tomos" $words --threads 1 -o stopped.h5 >out 2>err &
	pid=$!
	for _ in $(seq 300); do
		sleep 0.1
		if grep -q "^back projecting: 0 %\|^norm: at work" err; then break; fi
	done
	kill -INT $pid
	wait $pid
	if grep -q "^back projecting: 0 %\|^norm: at work" err; then ok "$words is shown"; else bad "$words is not shown"; fi
	absent stopped.h5
done
# A method that diverges is a failure, not a wrong word, and leaves nothing.
check "landweber too fast" 1 recon s.h5 --method sirt --weights landweber --relaxation 1e9 --iterations 9 -o d.h5
has "says so" err "sirt diverged: the residual after iteration"
has "and what to do" err "a relaxation below 1e+09 may help"
absent d.h5
check "a norm too small" 1 recon s.h5 --method fista --norm 1e-6 -o d.h5
has "says so" err "a norm above 1e-06 may help"
absent d.h5
check "no norm" 2 recon s.h5 --method pdhg --norm=-1 -o d.h5
check "a norm for nothing" 2 recon s.h5 --method sirt --norm 3 -o d.h5
# Hounsfield units are no attenuation.
check "a volume in Hounsfield units" 0 recon s.h5 --hu 0.02 -o hu.h5
check "as a start" 1 recon s.h5 --method sirt --iterations 1 --start hu.h5 -o d.h5
has "its message" err "the start: 'hu.h5' is in Hounsfield units"
check "as an object" 1 project hu.h5 --views 3 -o d.h5
has "its message" err "'hu.h5' is in Hounsfield units"
absent d.h5
rm -f large.h5
# Lines in a log: at most one for the start and each tenth, none when quiet.
check "a log" 0 project random --count 20 --samples $samples --rows 100 --columns 100 --views 100 -o log.h5
if [ "$(grep -c '^projecting:' err)" -le 11 ]; then ok "at most eleven lines"; else bad "too many lines"; fi
check "a quiet log" 0 project random --count 20 --samples $samples --rows 100 --columns 100 --views 100 \
	-o log.h5 --overwrite --quiet
if [ ! -s err ]; then ok "quiet has no lines"; else bad "quiet has lines"; fi
if [ -w /dev/full ]; then
	"$tomos" help >/dev/full 2>err
	if [ $? = 1 ]; then ok "a full disk is a failure"; else bad "a full disk passes"; fi
fi

echo "$failures failed"
[ "$failures" = 0 ]
