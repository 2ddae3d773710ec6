# The gateway for Octave builds against the library, and a script uses all of it.
set -euo pipefail
source=$2
build=$3
if grep -q '^TOMOS_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
	echo "skipped: a plain program cannot load a library with sanitizers"
	exit 77
fi
if ! command -v mkoctfile >/dev/null || ! command -v octave-cli >/dev/null; then
	echo "skipped: no Octave (Debian has it in octave-dev)"
	exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$source/scripts/build-octave" "$build" "$dir"
cd "$dir"
octave-cli --norc --quiet --path "$dir" "$source/tests/octave/check.m" | tee said
grep -q 'all right' said
