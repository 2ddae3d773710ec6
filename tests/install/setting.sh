# For tests that compile programs against a build: $compiler, and $dir, which is removed at the end.
set -euo pipefail
tomos=$1
source=$2
build=$3
if grep -q '^TOMOS_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
	echo "skipped: a plain program cannot load a library with sanitizers"
	exit 77
fi
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
