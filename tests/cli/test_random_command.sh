#!/usr/bin/env bash
# A few of the random command lines of long_random.py.
set -euo pipefail
exec python3 "$2/tests/cli/long_random.py" "$1" --seed 7 --runs 60
