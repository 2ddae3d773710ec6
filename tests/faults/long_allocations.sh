#!/bin/sh
# Every allocation of every command failing in turn, those of the libraries that it uses as well (campaign.py).
#
#   long_allocations.sh COMMAND SOURCES BUILD
exec python3 "$2/tests/faults/campaign.py" "$1" "$3/tests/libfault_calls.so" --kinds memory
