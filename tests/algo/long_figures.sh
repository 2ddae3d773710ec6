#!/bin/bash
# The convergence figures of Nielsen's thesis at N = 128: with 5 % noise SART is at its best within three
# iterations and SIRT needs tens; without noise both go on towards the truth.
#
#   long_figures.sh COMMAND SOURCES BUILD
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$2/scripts/figures" "$1" "$folder" "${FIGURE_SIZE:-128}" 2>/dev/null | tee "$folder/out"
[ -s "$folder/figure-0.05.png" ] && [ -s "$folder/figure-0.png" ] || exit 1
# best NAME: the iteration of least error; error NAME N: the error after iteration N.
best() { tail -n +2 "$folder/$1.csv" | sort -t, -k3,3g | head -1 | cut -d, -f1; }
error() { awk -F, "\$1 == $2 { print \$3 }" "$folder/$1.csv"; }
failures=0
want() { # want WHAT EXPRESSION
	if awk "BEGIN { exit !($2) }"; then echo "ok - $1"; else
		echo "not ok - $1 ($2)"
		failures=$((failures + 1))
	fi
}
want "SART is at its best within 3 iterations" "$(best sart-0.05) <= 3"
want "SIRT needs tens" "$(best sirt-0.05) >= 10"
want "SART's best is as good as SIRT after ten" \
	"$(error sart-0.05 "$(best sart-0.05)") < $(error sirt-0.05 10)"
for method in sart block sirt; do
	last=$(tail -1 "$folder/$method-0.csv" | cut -d, -f1)
	want "$method without noise is at its best at the end" "$(best $method-0) == $last"
done
want "SART without noise comes near the truth" "$(error sart-0 10) < 0.1"
[ "$failures" = 0 ]
