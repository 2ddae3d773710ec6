#!/bin/sh
# Every allocation of every command failing in turn: tomos's own, and those of libtiff and libpng for it
# (campaign.py). libhdf5 and libjansson do not survive failing allocations of their own.
#
#   long_allocations.sh COMMAND SOURCES BUILD
exec python3 "$2/tests/faults/campaign.py" "$1" "$3/tests/libfault_calls.so" --kinds memory \
	--origin tomos:libtomos:libtiff:libpng
