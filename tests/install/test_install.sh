# An installed copy is complete: the examples build against it in both usual ways and run, and it
# still works after it has been moved.
# shellcheck source=tests/install/setting.sh disable=SC2154
. "$(dirname "$0")/setting.sh"

echo "== install"
cmake --install "$build" --prefix "$dir/first" >"$dir/log" || { cat "$dir/log"; exit 1; }
mv "$dir/first" "$dir/prefix"
prefix=$dir/prefix
for file in bin/tomos include/tomos.h include/tomos/options.h share/man/man1/tomos.1 \
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

libdir=$(dirname "$(find "$prefix" -name libtomos.so)")
echo "== soname"
[ -e "$libdir/libtomos.so.0.2" ] || { ls "$libdir"; exit 1; }

echo "== the header in C++"
if command -v c++ >/dev/null; then
	cat >"$dir/header.cpp" <<-'END'
		#include <tomos.h>
		static tomos_cancel stop;
		int main()
		{
			int count;
			const tomos_option *rows = tomos_options("scan", &count);
			tomos_cancel_raise(&stop);
			return tomos_version_check(TOMOS_VERSION_NUMBER) == TOMOS_OK &&
				       tomos_scan_defaults().rows == 1 && tomos_cancel_raised(&stop) &&
				       TOMOS_ROW(rows, 1)->name[0] == 'r'
			       ? 0
			       : 1;
		}
	END
	c++ -Wall -Wextra -Wpedantic -Werror -I"$prefix/include" "$dir/header.cpp" -o "$dir/header" \
		-L"$libdir" -ltomos -Wl,-rpath,"$libdir"
	"$dir/header"
else
	echo "skipped: no C++ compiler"
fi

echo "== the option structs, as plain C"
# A program that prints offset and default of each member, compiled against the installed header and
# against the table in the source tree: both must print the same.
grep -q '^	int64_t iterations;$' "$prefix/include/tomos/options.h"
{
	cat <<-'END'
		#include <stdio.h>
		#include <tomos.h>
		static void put_text(const void *p) { const char *t = *(const char *const *)p; printf("%s", t ? t : "-"); }
		static void put_real(const void *p) { printf("%.17g", *(const double *)p); }
		static void put_whole(const void *p) { printf("%lld", (long long)*(const int64_t *)p); }
		#define PUT(o, member) _Generic((o).member, const char *: put_text, double: put_real, default: put_whole)(&(o).member)
		#define SHOW(group, member) { tomos_##group##_options o = tomos_##group##_defaults(); \
			printf("%s.%s %zu ", #group, #member, offsetof(tomos_##group##_options, member)); PUT(o, member); puts(""); }
		int main(void) {
	END
	awk '/^typedef struct/ { group = $3; sub("^tomos_", "", group); sub("_options$", "", group) }
		/^\t[a-z].*;/ && !/[.(=]/ && !/return/ && group { name = $0; sub(";.*", "", name); sub(".*[ *]", "", name)
			print "SHOW(" group ", " name ")" }
		/^}/ { group = "" }' "$prefix/include/tomos/options.h"
	echo 'return 0; }'
} >"$dir/options.c"
for include in "$prefix/include" "$source/include"; do
	"$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$include" "$dir/options.c" -o "$dir/options"
	"$dir/options" >"$dir/options.$(basename "$(dirname "$include")")"
done
cmp "$dir/options.prefix" "$dir/options.$(basename "$source")"
[ "$(wc -l <"$dir/options.prefix")" -gt 120 ]

echo "== examples through pkg-config"
export PKG_CONFIG_PATH=$libdir/pkgconfig
mkdir "$dir/pkg"
for name in reconstruct adjoint_test; do
	# shellcheck disable=SC2046
	"$compiler" -std=c11 -O2 "$source/examples/$name.c" -o "$dir/pkg/$name" \
		$(pkg-config --cflags --libs tomos) -Wl,-rpath,"$libdir" -lm
done
run_examples "$dir/pkg"
