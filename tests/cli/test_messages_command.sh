#!/usr/bin/env bash
# What commands say: warnings with and without --quiet, options as they are typed, units, help of one command, text outputs.
set -u
# shellcheck source=tests/cli/cli_help.sh
. "$2/tests/cli/cli_help.sh"

make project shepp-logan-2d-modified --columns 64 --views 90 --pixel 0.035 --samples 2 -o scan.h5
make convert scan.h5 scan.npy
for i in {0..89}; do echo "$i" | awk '{ printf "%.9f\n", $1 * 3.14159265359 / 90 }'; done > radians.txt

# Warnings are printed with --quiet, notes and results of the run are not.
edge=(recon scan.npy --arc 180 --axis-range "40,45" --overwrite -o volume.npy)
check "an axis beside the range" 0 "${edge[@]}"
has "the axis is said" out "axis      column"
has "the assumption is a note" err "note: no geometry in 'scan.npy'"
has "it warns" err "warning: the axis may be outside the range 40 to 45 that was searched"
check "the same with --quiet" 0 "${edge[@]}" -q
has "it warns as well" err "warning: the axis may be outside the range 40 to 45 that was searched"
[ -s out ] && bad "--quiet prints" || ok "--quiet prints no results"
grep -q "note: " err && bad "--quiet prints notes" || ok "--quiet prints no notes"
grep -q -- "--sweep" err && bad "slices beside the axis are suggested" || ok "no sweep beside the axis"
for command in "center scan.npy" "prep scan.npy -o prepared.npy" "align scan.npy -o views.json --rounds 1"; do
	# shellcheck disable=SC2086
	check "$command" 0 $command --arc 180 --axis-range 40,45 -q
	has "$command warns" err "warning: the axis may be outside the range 40 to 45"
done
check "a sinogram without opposite rays in the range" 2 center scan.npy --arc 360 --geometry fan --source-axis 2 \
	--source-detector 3 --pixel 0.035 --axis-range 1,4
has "the range is named" err "columns 1 to 4 were searched, as --axis-range says"
make project shepp-logan --columns 64 --rows 4 --views 20 -o stack.h5
make convert stack.h5 stack.npy
check "a range that cannot be searched" 2 recon stack.npy --arc 180 --bin 2 --axis-range 20,23 -o x.npy
has "is named as given" err "--axis-range 20,23: it must lie within 0.5 to 62.5 and be 4 columns wide at least"
! grep -q "were searched" err && ok "no search is claimed" || bad "a search is claimed: $(cat err)"
# A detector that sees a speck of the object, or nothing of it.
speck=(project random --geometry cone --source-axis 300 --source-detector 450 --rows 8 --columns 32 --views 4 --overwrite -o speck.h5)
check "a phantom of one pixel" 0 "${speck[@]}" --pixel 3
has "is said, with the option" err "wide, where a pixel of the detector sees 2; --radius makes the phantom larger"
check "a phantom beside the detector" 0 "${speck[@]}" --pixel 0.1 --axis 300
has "is said" err "warning: all projections are 0: no ray meets the object"
check "a phantom that is seen" 0 "${speck[@]}" --pixel 0.1
grep -q warning err && bad "it warns: $(cat err)" || ok "it does not warn"
# One function prints them, so that none depends on --quiet.
if grep -rnE '"(warning|note): ' "$2/cli" "$2/src" --include='*.c'; then
	bad "a warning or note that message.c does not print"
else
	ok "message.c prints all warnings and notes"
fi

# Units: angles, memory.
check "radians" 2 recon scan.npy --angles @radians.txt -o x.npy
has "are recognised" err "warning: the angles cover 3.107 degrees: these look like radians that were given as degrees"
check "an arc in radians" 0 recon scan.npy --arc 3.14159 --axis 31.5 -o arc.npy
has "is recognised" err "look like radians"
check "degrees" 0 recon scan.npy --arc 180 --axis 31.5 -o degrees.npy
grep -q "look like" err && bad "degrees are doubted" || ok "degrees are not doubted"
check "memory without a unit" 2 recon scan.h5 --memory 16 -o x.npy
has "names units" err "--memory: '16' means bytes, as it has no unit; write 16M for MiB or 16G for GiB"
check "memory in bytes" 0 recon scan.h5 --memory 268435456 -o bytes.npy

# A scanner's file: what it leaves open, options that have no effect on it, and the file beside views that were named.
mkdir -p lab/Projection
cat > lab/scan.xml << 'END'
<diondo><Recon><ProjectionDimX>8</ProjectionDimX><ProjectionDimY>4</ProjectionDimY><ProjectionCount>16</ProjectionCount>
<ProjectionPixelSizeX>0,5</ProjectionPixelSizeX><ProjectionPixelSizeY>0,5</ProjectionPixelSizeY></Recon>
<Geometrie><SourceDetectorDist>600</SourceDetectorDist><SourceObjectDist>120</SourceObjectDist></Geometrie></diondo>
END
for i in {10..25}; do head -c 64 /dev/zero > "lab/Projection/_10,5_$i.raw"; done
check "a scanner's file" 0 info lab/scan.xml --draw lab.svg
has "its options are as typed" out "a mirror image; --flip columns gives the other one"
has "its drawing is in mm" lab.svg "mm<"
! grep -q "by convention" lab.svg && ok "which nothing doubts" || bad "the unit is doubted"
check "parallel rays instead" 2 recon lab/scan.xml --geometry parallel --dry-run
has "are not ignored" err "--geometry parallel has no effect: 'lab/scan.xml' is a scan of a cone beam"
check "another distance" 0 recon lab/scan.xml --source-axis 15cm --i0 1000 --axis 3.5 --dry-run
has "takes the others from the file" out "voxels (x y z) of 0.125 x 0.125 x 0.125 mm"
check "a distance that there is not" 2 recon lab/scan.xml --pitch 3 --dry-run
has "has no effect" err "--pitch has no effect without --geometry helix"
check "it is no array" 1 convert lab/scan.xml x.h5
has "what makes one of it" err "'tomos prep lab/scan.xml -o scan.h5' writes"
make convert stack.npy lab/frames.tif
check "views beside the file of the scanner" 2 recon lab/frames.tif --arc 180 --axis 79,5 -o x.npy
has "it is named" err "'tomos recon lab/scan.xml' reads the geometry from it"
has "a comma is no decimal mark" err "(the decimal mark is a point)"
make convert stack.npy shots/
mv shots/*.tif* lab/
rm lab/frames.tif
check "the folder of both" 0 info lab
has "its file is named" err "'tomos info lab/scan.xml' reads the geometry from it"

# Options as they are typed, whatever the library calls them.
check "a value out of range" 2 recon scan.h5 --hu 1,2,3 -o x.npy
has "its option has dashes" err "tomos recon: --hu has 3 values"
check "an axis that is not found" 0 recon scan.npy --geometry fan --arc 90 --source-axis 20 --source-detector 30 \
	--pixel 0.035 --method sirt --iterations 1 -o fan.npy
has "says what sets it" err "--axis sets it"
! grep -q "the option '" out err && ok "no option without dashes" || bad "an option without dashes"
check "a word that is an option of another command only" 2 phantom ball --radius 0 -o x.npy
has "it stays a word" err "tomos phantom: phantom: the radius is 0"
make convert scan.h5 bad_views.h5
check "files named like options" 0 recon bad_views.h5 -o flat_average.h5
has "keep their names" out "bad_views.h5: tomos"
has "in all lines" out "to flat_average.h5"
! grep -q -- "--bad-views\|--flat-average" out err && ok "no file becomes an option" || bad "a file as an option: $(cat out err)"

# Help of one command.
check "help of align" 0 align --help
has "has its outputs" out "list of views to write, .json or .txt"
check "help of recon" 0 recon --help
has "has the formats" out ".ome.zarr"
has "has the default of --arc" out "(default: the angles of"
check "help of project" 0 project --help
has "has its own default" out "0: 180 for parallel rays"
# Text outputs: a link stays a link, and what is no file is written to.
make project shepp-logan-2d-modified --columns 24 --views 12 -o small.h5
sirt=(recon small.h5 --method sirt --iterations 2 -q --overwrite -o sirt.npy)
ln -s real.csv link.csv
echo old > real.csv
check "a history through a link" 0 "${sirt[@]}" --history link.csv
[ -L link.csv ] && has "is in the file that it names" real.csv "iteration,residual" || bad "the link was replaced"
mkfifo pipe
timeout 20 cat pipe > received &
check "a history to a pipe" 0 "${sirt[@]}" --history pipe
wait $!
[ -p pipe ] && has "goes through it" received "iteration,residual" || bad "the pipe was replaced"
echo mine > taken.csv
check "a history that exists" 1 recon small.h5 --method sirt --iterations 2 -q -o other.npy --history taken.csv
has "is kept" taken.csv mine
printf '\xef\xbb\xbfview,shift-x\n' > marked.csv
for i in {0..11}; do echo "$i,0"; done >> marked.csv
check "a table with a byte-order mark" 0 recon small.h5 --shift-x @marked.csv -q -o marked.npy
exit "$((failures > 0))"
