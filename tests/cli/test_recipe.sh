#!/usr/bin/env bash
# Recipes as a user writes them and as --save-recipe does: the same bytes again, and rejections with a place.
set -euo pipefail
tomos=$(readlink -f "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
	echo "test_recipe: $*"
	exit 1
}

# rejected WORDS RECIPE [OPTIONS]: the recipe, with \n for lines, ends in a message with these words.
rejected() {
	local words=$1 code=0
	printf '%b' "$2" >wrong.ini
	shift 2
	"$tomos" recon scan.h5 --recipe wrong.ini -o rejected.h5 "$@" >out 2>&1 || code=$?
	[ "$code" = 2 ] || fail "'$words': status $code, not 2: $(cat out)"
	grep -qF -- "$words" out || fail "'$words' is not in: $(cat out)"
	[ ! -e rejected.h5 ] || fail "'$words': a rejected command left its output"
}

same() {
	"$tomos" compare "$1" "$2" --max 0 >out || fail "$1 and $2 differ: $(cat out)"
}

"$tomos" project shepp-logan-2d-modified --columns 48 --rows 3 --views 40 -q -o scan.h5
seq -f %.13g 0.1 4.56789012345 180 | head -n 40 >angles.txt
"$tomos" convert scan.h5 scan.npy -q
"$tomos" recon scan.npy --angles @angles.txt --axis 23.7 --pixel 12um --padding edge --rows 1:3 \
	--bad-views 3,4 --response "$(seq -s, 0 0.02 1)" --save-recipe first.ini -q -o first.npy
grep -qx 'padding = edge' first.ini || fail "no padding in: $(cat first.ini)"
grep -qx 'rows = 1:3' first.ini || fail "no rows in: $(cat first.ini)"
grep -qx 'cutoff = 1' first.ini || fail "a default is missing in: $(cat first.ini)"
awk 'length($0) > 180 { exit 1 }' first.ini || fail "a line is too long for readers of INI files"
"$tomos" recon scan.npy --recipe first.ini --save-recipe again.ini -q -o again.npy
cmp first.npy again.npy || fail "the recipe gives other bytes"
cmp first.ini again.ini || fail "the recipe of a recipe is another one"

# The command line counts more; keys may be written with either line.
printf '[analytic]\nfilter = hann\n[prep]\nbad_views = 3,\n  4\n[run]\nrows = 0:1\n' >own.ini
"$tomos" recon scan.h5 --recipe own.ini --rows 1:2 -q -o own.h5
"$tomos" recon scan.h5 --filter hann --bad-views 3,4 --rows 1:2 -q -o typed.h5
same own.h5 typed.h5

# An iterative method, and a plan alone.
"$tomos" recon scan.h5 --method sirt --iterations 3 --minimum 0 --save-recipe sirt.ini -q -o sirt.h5
if grep -q '^\[analytic\]' sirt.ini; then fail "sirt has no filter"; fi
"$tomos" recon scan.h5 --recipe sirt.ini -q -o sirt2.h5
same sirt.h5 sirt2.h5
"$tomos" recon scan.h5 --dry-run --save-recipe plan.ini -q
[ -s plan.ini ] && [ ! -e scan_rec ] || fail "a plan leaves its recipe and nothing else"

rejected "'wrong.ini', line 2: 'ringz' is not in [prep]; nearest: rings" '[prep]\nringz = vo\n'
rejected "'wrong.ini', line 3: [prpe] is not known; nearest: [prep]" '\n[prpe]\nrings = vo\n'
rejected "line 2: [common] is not" '[common]\nthreads = 1\n'
rejected "line 2: --rings: 'voo' is not one of" '[prep]\nrings = voo\n'
rejected "line 3: --ring-snr: 'much' is not a number" '[prep]\nrings = vo\nring-snr = much\n'
rejected "line 3: 'rings' was given before" '[prep]\nrings = vo\nrings = vo\n'
"$tomos" recon scan.h5 --hardening auto --hu 0.2 --metal nmar --save-recipe auto.ini -o auto.h5 >out
grep -q "^hardening .*deviation inside the object" out || fail "no polynomial in: $(cat out)"
grep -qx 'hardening = auto' auto.ini || fail "no automatic hardening in: $(cat auto.ini)"
"$tomos" recon scan.h5 --recipe auto.ini --save-recipe auto2.ini -q -o auto2.h5
cmp auto.ini auto2.ini || fail "the recipe of an automatic recipe is another one"
same auto.h5 auto2.h5
rejected "line 2: leave-out: 'perhaps' is neither yes nor no" '[prep]\nleave-out = perhaps\n'
rejected "line 2: neither [section] nor key = value" '[prep]\nrings\n'
rejected "line 2: the line has more than" "[prep]\nsteps = $(seq -s, 1 100)\n"
rejected "--filter has no effect with --method sirt" '[analytic]\nfilter = hann\n' --method sirt
code=0
"$tomos" recon scan.h5 --recipe none.ini -o rejected.h5 >out 2>&1 || code=$?
[ "$code" = 1 ] && grep -qF "'none.ini' cannot be read" out || fail "no recipe: $code $(cat out)"
code=0
"$tomos" recon scan.h5 --save-recipe own.ini -o rejected.h5 >out 2>&1 || code=$?
[ "$code" = 1 ] && grep -qF "'own.ini' exists already; give --overwrite" out || fail "kept: $code $(cat out)"
code=0
"$tomos" recon scan.h5 --save-recipe new.ini --flats 'a ;b' -o rejected.h5 >out 2>&1 || code=$?
[ "$code" = 1 ] && grep -qF "'a ;b' cannot be kept in a recipe" out || fail "text: $code $(cat out)"
[ ! -e rejected.h5 ] || fail "a rejected command left its output"
[ -z "$(find . -name '*.part*')" ] || fail "something is left behind"
