#!/usr/bin/env bash
# tomos align, as it is typed: a simulated scan whose views are moved, what it writes, and rejections.
set -u
# shellcheck source=tests/cli/cli_help.sh
. "$2/tests/cli/cli_help.sh"

"$tomos" project shepp-logan-modified --geometry parallel --columns 32 --rows 32 --views 24 --arc 360 \
	--pixel 0.07 --samples 2 -o still.h5 -q || exit 1
check "an aligned scan" 0 align still.h5 --rounds 2 -o views.json --table motion.csv --motion-plot motion.png
there views.json
there motion.csv
there motion.png
has "the shifts are printed" out "columns and"
has "the axis that was given" out "as given"
grep -q "beyond the first" err && bad "an object within the rows is called cut" || ok "an object within the rows"
awk -F, 'NR > 1 && ($2 > 0.3 || $2 < -0.3 || $3 > 0.3 || $3 < -0.3) { bad = 1 } END { exit bad || NR != 25 }' \
	motion.csv && ok "views that were not moved stay where they are" || bad "motion of a still scan"
check "the views are read by recon" 0 recon still.h5 --views-file views.json --method cgls --iterations 2 -o volume.h5
check "an output that exists" 1 align still.h5 -o views.json
has "says so before it computes" err "'views.json' exists already"
check "an output of another kind" 2 align still.h5 -o views.h5
has "names the kinds" err "must end with .json or .txt"
check "no output" 2 align still.h5
check "a table that exists" 1 align still.h5 -o other.json --table motion.csv
absent other.json
check "rounds below 1" 2 align still.h5 -o other.json --rounds 0
"$tomos" project shepp-logan-modified --geometry parallel --columns 32 --rows 12 --views 24 --arc 360 \
	--pixel 0.07 --samples 2 -o low.h5 -q || exit 1
"$tomos" convert low.h5 low.npy -q || exit 1
check "some rows of the object" 0 align low.npy --geometry parallel --arc 360 --rounds 1 -o cut.json
has "the axis that was found" out "axis      column 15."
has "an object that is cut off" err "the object goes on beyond the first or last row"
cp motion.csv before.csv && ln motion.csv old.csv
check "roll" 0 align still.h5 --rounds 1 --fit-roll -o other.json --table motion.csv --overwrite -q
there other.json
cmp -s before.csv motion.csv && bad "the table was not replaced" || ok "another table"
cmp -s before.csv old.csv && ok "which replaced the older one when it was complete" || bad "the older table was changed"

# Shifts that preparation takes away are found with the opposite sign, and the table corrects them.
for i in {0..23}; do echo "$((i % 2 ? 1 : -1))"; done > shifts.txt
"$tomos" prep still.h5 --shift-x @shifts.txt -o shifted.h5 -q || exit 1
check "a scan with shifts" 0 align shifted.h5 --rounds 4 -o shifted.json --table shifted.csv
awk -F, 'NR > 1 && (($2 > 0) != (NR % 2 == 0) || $2 * $2 < 0.5) { bad = 1 } END { exit bad || NR != 25 }' shifted.csv &&
	ok "the table has the sign of --shift-x" || bad "sign of shifts: $(head -4 shifted.csv | tr '\n' ' ')"
tail -n +2 shifted.csv | cut -d, -f2 > column.txt
check "the table as a list" 0 prep shifted.h5 --shift-x @shifted.csv -o by_table.npy
check "its column as a list" 0 prep shifted.h5 --shift-x @column.txt -o by_column.npy
cmp -s by_table.npy by_column.npy && ok "the column of the option's name is read" || bad "shifts of a table"
check "an option that the table lacks" 2 prep shifted.h5 --angles @shifted.csv -o x.npy
has "names its columns" err "'shifted.csv' has the columns view,shift-x,shift-y,roll, and none is named 'angles'"

"$tomos" project shepp-logan-2d-modified --geometry fan --columns 48 --views 40 --source-axis 5 \
	--source-detector 8 --pixel 0.08 --samples 2 -o fan.h5 -q || exit 1
check "one detector row" 0 align fan.h5 -o fan.json --table fan.csv
awk -F, 'NR > 1 && ($2 > 0.3 || $2 < -0.3 || $3 != 0 || $4 != 0) { bad = 1 } END { exit bad || NR != 41 }' \
	fan.csv && ok "one row has no shifts along rows" || bad "motion of a still fan-beam scan"
check "the roll of one row" 2 align fan.h5 -o roll.json --fit-roll
has "says why" err "a detector of one row does not determine the roll"
exit "$((failures > 0))"
