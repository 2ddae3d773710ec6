#!/bin/sh
# Every allocation of every command failing in turn: tomos's own, and those of libpng for it, and of libtiff where
# it writes (campaign.py). libhdf5 and libjansson do not survive failing allocations of their own, nor does libtiff
# (4.5, in TIFFFreeDirectory) where it reads a directory.
#
#   long_allocations.sh COMMAND SOURCES BUILD
set -e
campaign() {
	python3 "$2/tests/faults/campaign.py" "$1" "$3/tests/libfault_calls.so" --kinds memory --origin "$4" --only "$5"
}
campaign "$@" tomos:libtomos:libpng ""
campaign "$@" tomos:libtomos:libtiff "to out.tif"
campaign "$@" tomos:libtomos:libtiff "to out/"
