#!/usr/bin/env bash
# tomos prep and tomos center, as they are typed: simulated scans, rejections, a measured scan if there is one.
set -euo pipefail
tomos=$1
sources=$(readlink -f "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
	echo "test_prep_command: $*"
	exit 1
}

# The words in $1 are what the command that follows ends with, with status $2.
rejected() {
	local words=$1 status=$2 code=0
	shift 2
	"$tomos" "$@" >out 2>&1 || code=$?
	[ "$code" = "$status" ] || fail "$*: status $code, not $status: $(cat out)"
	grep -qF -- "$words" out || fail "$*: '$words' is not in: $(cat out)"
}

near() {
	awk -v a="$1" -v b="$2" -v d="$3" 'BEGIN { exit !(a - b < d && b - a < d) }' ||
		fail "$1 is not within $3 of $2"
}

for arc in 180 360; do
	"$tomos" project shepp-logan-2d-modified --columns 128 --rows 1 --views 120 --arc $arc \
		--axis 66.3 --pixel 0.017 --samples 4 --noise 0.005 -o scan$arc.h5 -q
	near "$("$tomos" center scan$arc.h5 -q)" 66.3 0.1
done
"$tomos" center scan180.h5 --axis-method vo --axis-range 60,72 --sweep 64:68:0.5 --sheet s.png >out
grep -q "axis at column 66" out || fail "center says $(cat out)"
[ "$(head -c 4 s.png | tail -c 3)" = PNG ] || fail "the sheet is no picture"

# Line integrals go through.
"$tomos" prep scan180.h5 --rings titarenko --bad-views 3,4 --leave-out -o less.h5 -q
"$tomos" info less.h5 | grep -q "118 views" || fail "two views should be left out"
"$tomos" prep scan180.h5 -o same.h5 -q
"$tomos" compare scan180.h5 same.h5 --max 1e-7 >out || fail "prep without steps: $(cat out)"

# What is below the floor, as air of transmission 0 is here, ends at its logarithm.
for floor in 0.3 0.02; do
	"$tomos" prep scan180.h5 --quantity transmission --steps log --floor $floor -o floor$floor.h5 -q
	near "$("$tomos" info floor$floor.h5 | awk '$1 == "values" { print $4 + 0 }')" \
		"$(awk -v f=$floor 'BEGIN { print -log(f) }')" 1e-4
done

# What is seldom meant is done with a warning.
rejected "warning: --steps has no log" 0 recon scan180.h5 --quantity transmission --steps zingers -o t.h5
rejected "warning: --quantity is integrals, so the scan's flats are not used" 0 recon scan180.h5 \
	--flats scan360.h5 --quantity integrals -o u.h5

rejected "phase retrieval: pixel is 0 mm" 2 prep scan180.h5 --phase paganin -o p.h5
rejected "the unit 'keV' is not known for a length" 2 prep scan180.h5 --pixel 20keV -o p.h5
rejected "step 'polish' is not known" 2 prep scan180.h5 --steps polish -o p.h5
rejected "is not FROM:TO:STEP" 2 center scan180.h5 --sweep 60-70
rejected "hardening: 'auto' is found from a reconstructed slice" 2 center scan180.h5 --hardening auto
rejected "is not within columns 0 to 127" 2 center scan180.h5 --sweep 60:700:10
rejected "--sheet has no effect without --sweep" 2 center scan180.h5 --sheet a.png
rejected "--row: 1 is not between 0 and 0" 2 center scan180.h5 --row 1
"$tomos" convert scan180.h5 bare180.npy -q
rejected "--direction has no effect: the rays are parallel" 2 recon bare180.npy --arc 180 --direction auto -o no.h5
rejected "--direction has no effect: the rays are parallel" 2 center bare180.npy --arc 180 --direction auto
rejected "--axis-range 60,61" 2 center scan180.h5 --axis-range 60,61
"$tomos" project shepp-logan-modified --geometry cone --columns 64 --rows 16 --views 90 --source-axis 5 \
	--source-detector 8 --pixel 0.06 -o beside.h5 -q
rejected "--axis-range does not contain the axis" 2 center beside.h5 --fit --axis-range 40,50 --save beside.json
[ ! -e beside.json ] || fail "the views of a range beside the axis were written"
"$tomos" project ball --geometry fan --source-axis 5 --source-detector 9 --columns 64 --views 60 \
	-o fan.h5 -q
near "$("$tomos" center fan.h5 -q)" 31.5 0.05

# A cone beam whose axis is beside the middle and whose stage rotates the other way: found by recon and by center,
# which also finds the roll; the views that it writes are those of recon.
cone="--geometry cone --source-axis 6 --source-detector 9 --pixel 0.05"
"$tomos" project random $cone --columns 96 --rows 96 --views 96 --axis 50.4 --roll 0.8 \
	--noise 0.01 --samples 2 -o simulated.h5 -q
"$tomos" convert simulated.h5 cone.npy -q
"$tomos" recon cone.npy $cone --quantity integrals --arc -360 --axis-method pairs -o cone.h5 --report found.html >out
grep -q "axis      column 50\.[34].*the angles are negated" out || fail "recon of a cone beam says $(cat out)"
"$tomos" recon cone.npy $cone --quantity integrals --arc -360 --direction given -o kept.h5 >out
grep -q "negated" out && fail "recon changes a direction that is given: $(cat out)"
"$tomos" recon cone.npy $cone --quantity integrals --arc -360 --axis 50.4 -o set.h5 --report set.html >out
grep -q "direction opposite to the angles.*--direction given" out || fail "recon --axis says $(cat out)"
"$tomos" compare cone.h5 set.h5 --max 0.1 -q || fail "recon --axis does not find the direction of rotation"
for page in found set; do
	grep -q "angles negated" $page.html || fail "$page.html does not say that the angles are negated"
done
"$tomos" recon cone.npy $cone --quantity integrals --arc -360 --axis 50.4 --direction given -o kept.h5 --overwrite >out
grep -q "direction" out && fail "recon --axis changes a direction that is given: $(cat out)"
"$tomos" recon cone.npy $cone --quantity integrals --arc 360 --axis 50.4 -o kept.h5 --overwrite --report kept.html >out
grep -q "direction" out && fail "recon --axis speaks of the right direction: $(cat out)"
grep -q "column 50.40, as given<" kept.html || fail "the report does not say that the axis is given"
"$tomos" center cone.npy $cone --quantity integrals --arc 360 --fit --save found.json --picture both.png >out
grep -q "roll  *0\.[789]" out || fail "center --fit says $(cat out)"
grep -q "source-detector  *[0-9.]*, standard error [0-9.]* mm$" out ||
	fail "center --fit says no unit of lengths: $(cat out)"
"$tomos" center cone.npy $cone --quantity integrals --arc 360 --fit --unknown roll,axis-row >out
grep -q "roll  *0\.[789]" out || fail "center --fit --unknown says $(cat out)"
grep -q "slant  *0 (as given: not among the unknown values)" out || fail "center --unknown says $(cat out)"
rejected "scatter: it is found in counts or transmissions" 2 recon cone.npy $cone --quantity integrals --arc 360 --axis 50.4 \
	--scatter auto -o no.h5
rejected "wedge has 3 values" 2 recon cone.npy $cone --quantity integrals --arc 360 --wedge 1,0.03,2 -o no.h5
grep -q "axis" out && fail "recon looks for the axis before it rejects a wedge: $(cat out)"
rejected "unknown 'rol' is not a value of the pose" 2 center cone.npy $cone --quantity integrals --arc 360 --fit --unknown rol
rejected "unknown has no effect without a fit of the pose" 2 center scan180.h5 --unknown roll
"$tomos" recon cone.npy --quantity integrals --views-file found.json -o fitted.h5 -q 2>err
[ ! -s err ] || fail "recon warns of views that fit: $(cat err)"
"$tomos" recon cone.npy --quantity integrals --views-file found.json --flip columns -o mirrored.h5 -q 2>err
grep -q "opposite rays agree only if the rotation is the reverse of that of the views" err ||
	fail "recon of views of another scan says: $(cat err)"
"$tomos" center cone.npy --quantity integrals --views-file found.json --flip columns >out 2>&1
grep -q "reverse of what the scanner's file, --reverse or --views-file says" out ||
	fail "center with views of another scan says: $(cat out)"
"$tomos" recon cone.npy --quantity integrals --views-file found.json --flip columns --direction given -o mirrored.h5 --overwrite \
	-q 2>err
[ ! -s err ] || fail "recon compares views whose direction is given: $(cat err)"
"$tomos" recon cone.npy --quantity integrals --views-file found.json --flip columns --direction auto -o mirrored.h5 --overwrite >out
grep -q "direction opposite to the angles" out || fail "recon --direction auto of views says: $(cat out)"
"$tomos" center scan180.h5 --save straight.json -q >out
rejected "direction has no effect: the rays are parallel" 2 recon scan180.h5 --views-file straight.json --direction given -o no.h5
"$tomos" recon simulated.h5 -o true.h5 -q
"$tomos" compare true.h5 fitted.h5 --max 0.1 -q || fail "the fitted views give another volume"
"$tomos" center cone.npy $cone --quantity integrals --arc 360 --sweep 49:52:1 --sheet cone.png -q >out
[ -s cone.png ] && [ -s both.png ] || fail "no pictures of a cone beam"
# Black and white are those of the axis that was found, wherever the sweep begins.
"$tomos" center cone.npy $cone --quantity integrals --arc 360 --sweep 20:50:30 --sheet far.png -q >out
PYTHONPATH=$sources/tests/cli python3 - <<'END' || fail "the slice of the right axis is grey, as the first one is dark"
import pixels
tile = [pixel[0] for line in pixels.read("far.png")[-90:] for pixel in line[-90:]]
assert min(tile) == 0 and tile.count(255) < 0.05 * len(tile), (min(tile), tile.count(255))
END
rejected "has parallel rays" 1 center scan180.h5 --fit
[ "$("$tomos" center cone.npy $cone --quantity integrals --arc 360 --fit -q | cut -d ' ' -f 1 | tr '\n' ' ')" = \
	"axis axis-row roll slant swivel source-detector " ] || fail "center --fit -q does not print all values"
# An object beside the midplane, whose rays do not quite meet: found, but not called certain.
beside="--geometry cone --source-axis 20 --source-detector 50 --pixel 0.16"
"$tomos" phantom random --count 9 --seed 3 --size 40 --radius 1 -o above.mhd -q
for offset in 0.5 0.8; do
	sed -i "s/^Offset = .*/Offset = -0.975 0.975 $offset/" above.mhd
	"$tomos" project above.mhd $beside --rows 120 --columns 60 --views 120 --axis 33 -o simulated.h5 --overwrite -q
	"$tomos" convert simulated.h5 above.npy --overwrite -q
	"$tomos" recon above.npy $beside --quantity integrals --arc 360 -o above.h5 --overwrite >out 2>&1
	grep -q "axis      column 3[23]\.[09].*uncertain" out || fail "recon of an object above the midplane says $(cat out)"
done
"$tomos" center above.npy $beside --quantity integrals --arc 360 --fit >out 2>&1
grep -q "axis  *3[23]\.[09]" out || fail "center --fit of an object above the midplane says $(cat out)"
exact="--geometry cone --source-axis 300 --source-detector 1200 --pixel 0.635"
"$tomos" project random --count 5 --seed 4 --radius 6 $exact --rows 64 --columns 80 --views 180 --samples 2 \
	--axis 45.8 -o simulated.h5 --overwrite -q
"$tomos" convert simulated.h5 exact.npy -q
"$tomos" center exact.npy $exact --quantity integrals --arc 360 --fit --save exact.json >out 2>&1
grep -q "warning" out && fail "center --fit doubts a geometry that is right: $(cat out)"
"$tomos" project shepp-logan $cone --rows 9 --columns 64 --views 60 --noise 50 -o simulated.h5 --overwrite -q
"$tomos" convert simulated.h5 noise.npy -q
"$tomos" center noise.npy $cone --quantity integrals --arc 360 --fit >out 2>err
grep -q "warning: rays measured from both sides hardly agree" err || fail "center --fit of noise says $(cat err)"
far="--geometry cone --source-axis 90 --source-detector 140 --pixel 1.2"
"$tomos" project random $far --rows 40 --columns 64 --views 90 --swivel 7 --count 25 -o simulated.h5 --overwrite -q
"$tomos" convert simulated.h5 far.npy -q
"$tomos" center far.npy $far --quantity integrals --arc 360 --fit >out 2>err
grep -q "swivel .*, or over 5.7 degrees off" out || fail "center --fit of a swivel beyond its reach says $(cat out)"
# $1: rotation of the detector; a fit of another geometry, which must not be written
unfit()
{
	"$tomos" project random $far --rows 40 --columns 64 --views 90 --count 25 --radius 20 --noise 0.02 $1 -o simulated.h5 --overwrite -q
	"$tomos" convert simulated.h5 far.npy --overwrite -q
	rejected "'unfit.json' is not written" 1 center far.npy $far --quantity integrals --arc 360 --fit --save unfit.json
	[ ! -e unfit.json ] || fail "a fit was written for $1"
}
unfit "--swivel 7"
grep -q "warning: projections agree no better with what was found than before.*above 5.7 degrees" out || fail "a fit that is no better says $(cat out)"
unfit "--roll 6.5"
grep -q "warning: the scan has another roll than the one given.*give --roll nearer" out || fail "a roll beyond reach says $(cat out)"
"$tomos" project random $far --rows 40 --columns 64 --views 90 --count 25 --roll 3 --noise 2 -o simulated.h5 --overwrite -q
"$tomos" convert simulated.h5 far.npy --overwrite -q
"$tomos" center far.npy $far --quantity integrals --arc 360 --fit >out 2>err
grep -q "roll .*not determined" out || fail "center --fit knows a roll from noise: $(cat out)"
"$tomos" center noise.npy --quantity integrals --arc 360 >out 2>err
grep -q "parallel beam assumed" err || fail "center without a geometry says $(cat err)"
"$tomos" project ball --geometry laminography --tilt 30 --columns 32 --rows 32 --views 60 -o tilted.h5 -q
near "$("$tomos" center tilted.h5 -q)" 15.5 0.05
for option in --sweep=14:17:1 --picture=tilted.png; do
	rejected "the rays of laminography leave the plane of a slice" 2 center tilted.h5 "$option"
done
[ ! -e p.h5 ] || fail "a rejected command left its output"

tooth=${TOMOS_DATA:-.}/tooth/tooth.h5
[ -r "$tooth" ] || { echo "skipped: the measured scan: there is no $tooth"; exit 0; }
near "$("$tomos" center "$tooth" -q)" 296 0.25
"$tomos" prep "$tooth" --zingers both --rings vo --bin 2 -o tooth.h5 >out
grep -q "axis      column" out || fail "prep says nothing of the axis: $(cat out)"
"$tomos" recon tooth.h5 -o slice.h5 -q
