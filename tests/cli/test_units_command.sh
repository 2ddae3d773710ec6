#!/usr/bin/env bash
# Units of volumes and scans, and what is said where something is missing or does not fit.
#
#   test_units_command.sh COMMAND SOURCES BUILD
# shellcheck source=tests/cli/cli_help.sh
. "$2/tests/cli/cli_help.sh"
make_files
make convert s.h5 s.npy
plain="--axis 16.5 --arc 180"

# ---- Hounsfield units --------------------------------------------------------------------------
make recon s.h5 -o mu.h5
make recon s.h5 --hu 0.02,0.001 -o hu.h5
check "a truth of other units" 1 recon s.h5 --compare hu.h5 -o d.h5
has "its message" err "'hu.h5' is in Hounsfield units, and the reconstruction is not"
check "a truth of other units, iterating" 1 recon s.h5 --method sirt --iterations 1 --truth hu.h5 -o d.h5
has "its message" err "'hu.h5' is in Hounsfield units, and the reconstruction is not"
absent d.h5
check "attenuation becomes Hounsfield units" 0 recon s.h5 --hu 0.02,0.001 --compare mu.h5 -o d.h5
if awk '/^relative L2/ { found = $3 < 1e-5 } END { exit !found }' out; then ok "no difference"; else bad "a difference"; fi
for truth in mu hu; do
	check "errors of iterations" 0 recon s.h5 --method sirt --iterations 2 --hu 0.02,0.001 --compare $truth.h5 \
		--history $truth.txt --overwrite -o d.h5
done
if awk -F, 'FNR == NR { a[FNR] = $3; next } FNR > 1 { d = $3 - a[FNR]; if (d > 1e-4 || d < -1e-4) exit 1; n++ } END { exit n < 2 }' \
	mu.txt hu.txt; then ok "are those of attenuation"; else bad "differ: $(paste mu.txt hu.txt)"; fi

check "other units" 0 compare mu.h5 hu.h5
has "are mentioned" err "warning: 'mu.h5' is in"
check "the same unit" 0 compare hu.h5 hu.h5
has "is mentioned" out "unit                HU"

# ---- pixels of unknown size --------------------------------------------------------------------
# shellcheck disable=SC2086
check "a scan without pixel size" 0 recon s.npy $plain -o pixels.h5
check "its volume" 0 info pixels.h5
has "is in pixels" out "in 1/pixel"
check "projected" 0 project pixels.h5 --views 5 -o again.h5
check "its volume again" 0 recon again.h5 -o again_pixels.h5
check "says" 0 info again_pixels.h5
has "pixels again" out "in 1/pixel"
# shellcheck disable=SC2086
check "a length in um" 1 recon s.npy $plain --voxel 600um -o d.h5 --overwrite
has "its message" err "--voxel is a length with a unit, but 's.npy' does not say the size of its pixels"
# shellcheck disable=SC2086
check "in pixels" 0 recon s.npy $plain --voxel 0.6 -o d.h5 --overwrite
# shellcheck disable=SC2086
check "of known pixels" 0 recon s.npy $plain --pixel 1mm --voxel 600um -o d.h5 --overwrite

check "a scan in pixels with its geometry" 1 recon again.h5 --voxel 600um -o d.h5 --overwrite
has "its message" err "--voxel is a length with a unit, but the lengths of 'again.h5' are in the unit pixel"
check "a volume in pixels" 1 project pixels.h5 --views 5 --pixel 500um -o d.h5 --overwrite
has "its message" err "--pixel is a length with a unit, but the lengths of 'pixels.h5' are in the unit pixel"
make convert pixels.h5 bare.npy
check "a volume without units" 0 project bare.npy --views 5 --pixel 0.5 -o bare.h5
check "its projections" 0 info bare.h5
if grep -q " mm" out; then bad "claim mm"; else ok "claim no unit"; fi
check "a volume without units, a length with one" 1 project bare.npy --views 5 --pixel 0.5mm -o d.h5 --overwrite
has "its message" err "the lengths of 'bare.npy' are in no known unit"
check "with --voxel" 0 project bare.npy --voxel 1mm --views 5 --pixel 0.5mm -o d.h5 --overwrite
# shellcheck disable=SC2086
for method in fbp "sirt --iterations 1"; do
	check "a truth in 1/pixel" 0 recon s.h5 --method $method --compare pixels.h5 -o d.h5 --overwrite
	has "is mentioned" err "warning: 'pixels.h5' is in 1/pixel, and the reconstruction in 1/mm"
done
make convert mu.h5 unknown.npy
check "a truth of no unit" 0 recon s.h5 --hu 0.02,0.001 --compare unknown.npy -o d.h5 --overwrite
has "is mentioned" err "warning: 'unknown.npy' does not say its unit: taken as attenuation"

# ---- missing files -----------------------------------------------------------------------------
make convert p.h5 slices/
rm slices/*_00007.tiff
for words in "convert slices gap.npy" "show slices -o gap.png" "project slices --views 3 -o gap.h5" "compare slices slices"; do
	# shellcheck disable=SC2086
	check "$words" 0 $words
	has "warns" err "warning: number 7 is missing after 'slices/"
done

make convert mu.h5 volume/
last=$(find volume -name '*.tiff' | sort | tail -n 1)
mv "$last" "${last%_*}_00099.tiff"
for words in "--compare volume" "--method sirt --iterations 1 --start volume"; do
	# shellcheck disable=SC2086
	check "a gap, $words" 0 recon s.h5 $words -o d.h5 --overwrite
	has "is mentioned" err "is missing after 'volume/"
done

make convert mu.h5 ends/
mkdir first last
cp ends/*.tiff first
cp ends/*.tiff last
rm first/*_00000.tiff "last/$(basename "$(find last -name '*.tiff' | sort | tail -n 1)")"
check "the first file is missing" 0 convert first d.npy --overwrite
has "is mentioned" err "warning: number 0 is missing in 'first'"
check "the last file is missing" 0 convert last d.npy --overwrite
has "is mentioned" err "is missing after 'last/"
check "no file is missing" 0 convert ends d.npy --overwrite
if grep -q "is missing" err; then bad "a warning without need"; else ok "no warning"; fi
for words in "--compare first" "--method sirt --iterations 1 --mask first" "--method sirt --iterations 1 --compare first"; do
	# shellcheck disable=SC2086
	check "fewer slices, $words" 1 recon s.h5 $words -o d.h5 --overwrite
	has "the missing file is mentioned" err "number 0 is missing in 'first'"
done

# ---- settings that change the object -----------------------------------------------------------
check "wide stripes of few columns" 0 recon s.h5 --rings wavelet -o d.h5 --overwrite
has "are mentioned" err "warning: wavelet removes what is up to 16 columns wide"
check "wide stripes of few columns" 0 prep s.h5 --rings wavelet -o d.h5 --overwrite
has "are mentioned" err "--ring-levels 1 changes them less"

head -c 1360 /dev/zero | tr '\0' d >bright.raw
# shellcheck disable=SC2086
for method in fbp "sirt --iterations 1"; do
	check "projections brighter than flats" 0 recon bright.raw --raw 40,1,34,uint8 $plain --i0 50 --method $method -o d.h5 --overwrite
	has "are mentioned" err "the projections are 2 times as bright as the flats on average"
	check "darker ones" 0 recon bright.raw --raw 40,1,34,uint8 $plain --i0 100 --method $method -o d.h5 --overwrite
	if grep -q "as bright as" err; then bad "a warning without need"; else ok "no warning"; fi
done

for words in "hardening 1,-2" "wedge 1,0.06,2,0.1,4,0.18"; do
	# shellcheck disable=SC2086
	check "a polynomial that falls" 0 recon bright.raw --raw 40,1,34,uint8 $plain --i0 200 --$words -o d.h5 --overwrite
	has "is mentioned" err "the polynomial of --${words%% *} falls where those of this scan are large"
done

# ---- what cannot be found ----------------------------------------------------------------------
check "a checkpoint" 0 recon s.h5 --method cgls --iterations 2 --checkpoint here -o d.h5 --overwrite
check "that is not there" 0 recon s.h5 --method cgls --iterations 3 --checkpoint typo --resume -o d.h5 --overwrite
has "is told" err "note: there is no checkpoint 'typo': slices that are not finished"
check "that is there" 0 recon s.h5 --method cgls --iterations 3 --checkpoint typo --resume -o d.h5 --overwrite
if grep -q "there is no checkpoint" err; then bad "a note without need"; else ok "no note"; fi
uneven=$(seq -s, 0 34),40,60,90,120,175
check "uneven angles" 2 recon s.npy --angles "$uneven" -o d.h5 --overwrite
has "have an advice" err "; --axis sets it"
has "and a reason" err "even steps"
# shellcheck disable=SC2046
check "equal angles" 0 recon s.npy --axis 16.5 --angles "$(printf '0,%.0s' $(seq 39))0" -o d.h5 --overwrite
has "are mentioned" err "warning: all 40 views have the same angle"
wide="--geometry fan --source-axis 3 --source-detector 5 --axis 16.5 --arc 360 --method sirt --iterations 1"
# shellcheck disable=SC2086
check "a detector in another unit than its distance" 0 recon s.npy $wide --pixel 1 -o d.h5 --overwrite
has "is mentioned" err "warning: the rays of a view open to 146.3 degrees: the detector's pixels are 1 wide, and its middle is 5 from the source; are both in the same unit?"
# shellcheck disable=SC2086
check "in the same one" 0 recon s.npy $wide --pixel 0.5 -o d.h5 --overwrite
if grep -q "same unit" err; then bad "a warning without need"; else ok "no warning"; fi
echo "$failures failed"
[ "$failures" = 0 ]
