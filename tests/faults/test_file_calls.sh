#!/bin/sh
# Some file calls and allocations of some commands failing in turn; all of all: long_file_calls, long_allocations.
#
#   test_file_calls.sh COMMAND SOURCES BUILD
case $3 in
*tsan*)
	echo "skipped: the thread sanitizer and interposed calls do not go together"
	exit 77
	;;
*asan*) scale=10 ;;
*) scale=1 ;;
esac
campaign() {
	python3 "$2/tests/faults/campaign.py" "$1" "$3/tests/libfault_calls.so" --only "$4" --kinds "$5" \
		--stride $(($6 * scale))
}
campaign "$@" "info of scan.h5" EIO 1 && campaign "$@" "info of scan.tif" EIO 4 &&
	campaign "$@" "recon to out.npy" EIO,ENOSPC,short,memory 9
