#!/bin/sh
# Every file call of every command failing in turn (campaign.py).
#
#   long_file_calls.sh COMMAND SOURCES BUILD
exec python3 "$2/tests/faults/campaign.py" "$1" "$3/tests/libfault_calls.so"
