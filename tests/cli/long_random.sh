#!/usr/bin/env bash
# Random command lines under the address and undefined behaviour sanitizers: TOMOS_RANDOM_RUNS of them (10000),
# of the seed TOMOS_RANDOM_SEED (1). A build without sanitizers makes build-asan first.
set -euo pipefail
tomos=$1 source=$2 build=$3
if ! grep -q '^TOMOS_SANITIZE:.*address' "$build/CMakeCache.txt"; then
	cd "$source"
	cmake --preset asan >/dev/null
	cmake --build build-asan -t tomos_command >/dev/null
	tomos=$source/build-asan/tomos
fi
exec python3 "$source/tests/cli/long_random.py" "$tomos" --runs "${TOMOS_RANDOM_RUNS:-10000}" \
	--seed "${TOMOS_RANDOM_SEED:-1}" --jobs "$(nproc)"
