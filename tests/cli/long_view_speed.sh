#!/usr/bin/env bash
# The viewer with large volumes in a browser: first picture of 2048^3 within a second of the command, slices of
# 1024^3 at 30 frames per second. Needs Chromium, Python with numpy and playwright, and 2 GB in /dev/shm.
set -euo pipefail
python=${TOMOS_TEST_PYTHON:-python3}
"$python" -c 'import numpy, playwright' 2>/dev/null || { echo "skipped: $python has no numpy or no playwright"; exit 77; }
command -v chromium >/dev/null || { echo "skipped: there is no chromium"; exit 77; }
exec "$python" "$2/tests/cli/long_view_speed.py" "$1"
