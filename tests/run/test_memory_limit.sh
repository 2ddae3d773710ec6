#!/usr/bin/env bash
# --memory is the limit of what a run has in memory at once, the program included: the peak as the system counts it.
# On an OpenCL device of the processor the same memory is counted, beside what its compiler takes.
#
#   test_memory_limit.sh COMMAND SOURCES BUILD
set -u
if grep -q '^TOMOS_SANITIZE:[A-Z]*=.' "${3:-.}/CMakeCache.txt" 2>/dev/null; then
	echo "skipped: sanitizers have memory of their own"
	exit 77
fi
tomos=$(readlink -f "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
export TOMOS_TUNE=off
failures=0

peak() { # peak WORDS...: MiB at most in memory, while the command runs
	python3 -c '
import os, subprocess, sys
p = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(p.pid, 0)
print(usage.ru_maxrss // 1024)
sys.exit(status != 0)' "$tomos" "$@"
}
check() { # check MIB WORDS...: recon with that limit, and that it has an effect
	local limit=$1 got
	shift
	got=$(peak recon "$@" --memory "${limit}M" --overwrite -q -o v.npy) || got=failed
	if [ "$got" != failed ] && [ "$got" -le "$limit" ]; then
		echo "ok - recon $*: $got MiB of $limit"
	else
		echo "not ok - recon $*: $got MiB of $limit"
		failures=$((failures + 1))
	fi
}

"$tomos" project shepp-logan-2d --views 120 --columns 320 --rows 160 --pixel 0.0078125 -q -o s.h5 || exit 1
"$tomos" project shepp-logan-modified --geometry cone --source-axis 6 --source-detector 9 --rows 96 --columns 128 \
	--pixel 0.024 --views 60 -q -o c.h5 || exit 1
"$tomos" convert s.h5 packed.h5 --compress 1 -q || exit 1
for limit in 60 90 180; do
	check $limit s.h5 --backend cpu
	check $limit s.h5 --backend cpu --type uint16 --preview
	check $limit packed.h5 --backend cpu
done
for limit in 60 120; do
	check $limit s.h5 --backend cpu --by fourier
	check $limit s.h5 --backend cpu --by fourier --aliases 32 --size 80,80,160 --voxel 0.03125,0.03125,0.0078125
done
check 200 s.h5 --backend cpu --method cgls --iterations 2 --forward fourier --normal fourier --size 200,200,160 \
	--voxel 0.0078125
check 40 c.h5 --backend cpu --size 160,160,160
check 120 s.h5 --backend cpu --method sirt --iterations 1
check 180 c.h5 --backend cpu --method cgls --iterations 1
free=$(peak recon c.h5 --size 160,160,160 --backend cpu --overwrite -q -o v.npy)
if [ "$free" -gt 40 ]; then echo "ok - $free MiB without a limit"; else
	echo "not ok - $free MiB without a limit: the test shows nothing"
	failures=$((failures + 1))
fi
if "$tomos" info devices 2>/dev/null | grep -qi opencl && "$tomos" recon c.h5 --backend opencl --rows 0:1 -q -o o.npy 2>/dev/null; then
	# Its kernels are compiled once, and kept in files: small runs do that.
	"$tomos" recon s.h5 --backend opencl --memory 60M --rows 0:2 --overwrite -q -o v.npy
	"$tomos" recon c.h5 --backend opencl --memory 60M --size 8 --overwrite -q -o v.npy
	base=$(peak recon c.h5 --backend opencl --memory 60M --size 8 --overwrite -q -o v.npy)
	for words in "s.h5 --rows 0:40" "c.h5"; do
		# shellcheck disable=SC2086
		got=$(peak recon $words --backend opencl --memory 60M --overwrite -q -o v.npy)
		if [ "$got" -le $((base + 60 + 60)) ]; then # of the host, and of the device
			echo "ok - opencl $words: $got MiB, $base of a small run"
		else
			echo "not ok - opencl $words: $got MiB, $base of a small run"
			failures=$((failures + 1))
		fi
	done
else
	echo "skipped in part: there is no OpenCL device"
fi
echo "$failures failed"
[ "$failures" = 0 ]
