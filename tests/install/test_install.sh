# An installed copy is complete: the examples build against it in both usual ways and run, and it
# still works after it has been moved.
set -euo pipefail
source=$2
build=$3
if grep -q '^TOMOS_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
	echo "skipped: a plain program cannot load a library with sanitizers"
	exit 77
fi
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

echo "== install"
cmake --install "$build" --prefix "$dir/first" >"$dir/log" || { cat "$dir/log"; exit 1; }
mv "$dir/first" "$dir/prefix"
prefix=$dir/prefix
for file in bin/tomos include/tomos.h include/tomos/options.def share/man/man1/tomos.1 \
	share/bash-completion/completions/tomos share/doc/tomos/LICENSE; do
	[ -s "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
if grep -rIl "$source" "$prefix"; then
	echo "installed text files name the source tree"
	exit 1
fi

echo "== command, manual and completion"
"$prefix/bin/tomos" help >/dev/null
bash -n "$prefix/share/bash-completion/completions/tomos"
grep -q '^\.TH' "$prefix/share/man/man1/tomos.1"
if command -v man >/dev/null && man --version >/dev/null 2>&1; then
	warnings=$(LC_ALL=C.UTF-8 man --warnings -l "$prefix/share/man/man1/tomos.1" 2>&1 >/dev/null)
	[ -z "$warnings" ] || { echo "$warnings"; exit 1; }
fi

run_examples() {
	"$1/reconstruct" | tee "$dir/said"
	grep -q 'relative error 0\.' "$dir/said"
	"$1/adjoint_test"
}

echo "== examples through CMake"
cmake -S "$source/examples" -B "$dir/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
	-DCMAKE_C_COMPILER="$compiler" >"$dir/log" || { cat "$dir/log"; exit 1; }
cmake --build "$dir/cmake" >"$dir/log" || { cat "$dir/log"; exit 1; }
run_examples "$dir/cmake"

echo "== the header in C++"
if command -v c++ >/dev/null; then
	printf '%s\n' '#include <tomos.h>' \
		'int main() { return tomos_scan_defaults().rows == 1 ? 0 : 1; }' >"$dir/header.cpp"
	c++ -Wall -Wextra -Wpedantic -Werror -I"$prefix/include" "$dir/header.cpp" -o "$dir/header"
	"$dir/header"
else
	echo "skipped: no C++ compiler"
fi

echo "== examples through pkg-config"
libdir=$(dirname "$(find "$prefix" -name libtomos.so)")
export PKG_CONFIG_PATH=$libdir/pkgconfig
mkdir "$dir/pkg"
for name in reconstruct adjoint_test; do
	# shellcheck disable=SC2046
	"$compiler" -std=c11 -O2 "$source/examples/$name.c" -o "$dir/pkg/$name" \
		$(pkg-config --cflags --libs tomos) -Wl,-rpath,"$libdir" -lm
done
run_examples "$dir/pkg"
