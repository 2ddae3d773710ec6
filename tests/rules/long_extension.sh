# The recipes of CONTRIBUTING.md: adds its projector, method and file format to a copy of the source tree,
# as the page says, builds the copy, uses them and runs the generated tests that cover them.
set -euo pipefail
source=$2
build=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
tree=$dir/tree

mkdir "$tree"
tar -C "$source" --exclude=./.git --exclude='./build*' --exclude=./shared -cf - . | tar -C "$tree" -xf -
python3 - "$source/CONTRIBUTING.md" "$tree" <<'END'
"""Applies the blocks that begin with a path: new files, and lines to insert after others."""
import re
import sys
from pathlib import Path

page, tree = Path(sys.argv[1]).read_text(encoding="utf-8"), Path(sys.argv[2])
blocks = re.findall(r"^```c\n/\* (\S+?)(?:, after \"([^\"\n]*)\")? \*/\n(.*?)^```$", page, re.M | re.S)
assert len(blocks) == 8, f"{len(blocks)} blocks"
for path, after, text in blocks:
    file = tree / path
    if not after:
        assert not file.exists(), f"{path} exists"
        file.write_text(text, encoding="utf-8")
        continue
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if after in line]
    assert places, f"{path} has no line with {after}"
    lines.insert(places[0] + 1, text)
    file.write_text("".join(lines), encoding="utf-8")
END
"$tree/scripts/check-folders" "$tree"
"$tree/scripts/check-guards" "$tree"

echo "== build"
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
cmake -S "$tree" -B "$dir/build" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release \
	-DCMAKE_C_FLAGS_RELEASE=-O1 -DTOMOS_CUDA=OFF -DTOMOS_WERROR=ON >"$dir/log" || { cat "$dir/log"; exit 1; }
tests="test_adjoint test_linearity test_options test_algebraic test_algebraic_run test_iterative test_every_format"
targets=$(cmake --build "$dir/build" --target help | sed 's/:.*//' | sort -u)
wanted=tomos_command
for name in $tests; do
	if grep -qx "$name" <<<"$targets"; then wanted="$wanted $name"; fi
done
# shellcheck disable=SC2086
cmake --build "$dir/build" --target $wanted >"$dir/log" || { tail -50 "$dir/log"; exit 1; }

echo "== use"
tomos=$dir/build/tomos
cd "$dir"
"$tomos" project shepp-logan-2d-modified --geometry parallel --columns 64 --pixel 0.035 --views 40 -o scan.h5 -q
"$tomos" phantom shepp-logan-2d-modified --size 64 -o truth.npy -q
"$tomos" recon scan.h5 --method dummy --forward dummy --iterations 30 --size 64 -o volume.npy -q
"$tomos" convert volume.npy volume.dummy -q
"$tomos" convert volume.dummy again.npy -q
cmp volume.npy again.npy
"$tomos" info volume.dummy >said
grep -q dummy said
"$tomos" recon --help >said
grep -q dummy said
"$tomos" compare volume.npy again.npy

echo "== generated tests"
for name in $wanted; do
	[ "$name" = tomos_command ] || "$dir/build/tests/$name" >"$dir/log" 2>&1 || { tail -40 "$dir/log"; exit 1; }
done
