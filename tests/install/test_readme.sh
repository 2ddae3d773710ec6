# Runs every example of README.md as it is printed there (those in Python: tests/python/test_docs.py).
# shellcheck source=tests/install/setting.sh disable=SC2154
. "$(dirname "$0")/setting.sh"
cd "$dir"
mkdir bin
ln -s "$tomos" bin/tomos
export PATH=$dir/bin:$PATH LD_LIBRARY_PATH=$build

fail() {
	echo "test_readme: $*"
	exit 1
}

# Block number $2, counted from 1, of those in language $1 ("": the shell).
block() {
	awk -v language="$1" -v number="$2" '
		/^```/ && inside { inside = 0; next }
		/^```/ { inside = 1; taken = ($0 == "```" language) && ++count == number; next }
		inside && taken { print; any = 1 }
		END { exit !any }' "$source/README.md" || fail "there is no block $2 of language '$1'"
}

blocks() {
	awk -v language="$1" '/^```/ && inside { inside = 0; next } /^```/ { inside = 1; n += ($0 == "```" language) }
		END { print n + 0 }' "$source/README.md"
}

echo "== every block is known here"
[ "$(blocks '') $(blocks octave) $(blocks c)" = "5 1 1" ] || fail "README.md has other blocks than this test runs"

echo "== targets of make"
block '' 1 | sed 's/ *#.*//' | while read -r program arguments; do
	[ "$program" = make ] || fail "'$program' is not make"
	# shellcheck disable=SC2086
	HOME=$dir make -n -C "$source" $arguments >/dev/null
done

echo "== from the command line"
for number in 2 3; do
	block '' $number >commands
	bash -euo pipefail commands >said 2>&1 || { cat said; fail "block $number"; }
	cat said
done
[ -s head.png ] || fail "there is no picture of the head"
grep -q 'relative' said || fail "compare says nothing"

echo "== a scan as measured"
# Rows that the block names, in a scan that is quick to reconstruct.
mkdir measured
cd measured
tomos project shepp-logan-modified --geometry parallel --rows 420 --columns 40 --pixel 0.06 --views 45 -o scan.h5 -q
block '' 4 | sed 's/ *#.*//' >commands
bash -euo pipefail commands >said 2>&1 || { cat said; fail "block 4"; }
[ -d scan_rec ] && [ -s volume.h5 ] || fail "the measured scan leaves no slices"
tomos info volume.h5 | grep -q 200 || fail "rows 200:400 are not 200 slices"
cd ..

echo "== views that moved"
block '' 5 >commands
bash -euo pipefail commands >said 2>&1 || { cat said; fail "block 5"; }
grep -q 'roll of .* degrees rms' said || fail "align prints no roll"
[ -s motion.png ] && [ -s aligned.h5 ] || fail "align and recon leave no files"

echo "== from C"
{
	echo '#include <stdio.h>'
	echo '#include <stdlib.h>'
	block c 1 | grep '^#include'
	cat <<-'END'
		int main(void)
		{
			enum { rows = 8, columns = 16, views = 24 };
			double pixel = 1, source_axis = 60, source_detector = 90, angles[views];
			for (int i = 0; i < views; i++)
				angles[i] = i * 6.283185307 / views;
			float *projections = malloc(sizeof(float) * rows * columns * views);
			float *volume = calloc(rows * columns * columns, sizeof(float));
			for (int i = 0; i < rows * columns * views; i++)
				projections[i] = 1;
	END
	block c 1 | grep -v '^#include'
	cat <<-'END'
			int good = volume[rows * columns * columns / 2] > 0;
			tomos_op_free(A);
			tomos_geometry_free(scan);
			tomos_backend_close(backend);
			return good ? 0 : 1;
		}
	END
} >example.c
"$compiler" -std=c11 -Wall -Wno-missing-field-initializers example.c -o example -I"$source/include" -L"$build" -ltomos -lm
./example 2>said && [ ! -s said ] || { cat said; fail "the example in C fails"; }

echo "== from Octave"
if ! command -v mkoctfile >/dev/null || ! command -v octave-cli >/dev/null; then
	echo "skipped: no Octave (Debian has it in octave-dev)"
	exit 0
fi
"$source/scripts/build-octave" "$build" build/octave
{
	block octave 1
	echo 'far = norm(rec(:) - x(:)) / norm(x(:))'
	echo 'assert(far < 0.4)'
} >readme_example.m
octave-cli --norc --quiet readme_example.m
