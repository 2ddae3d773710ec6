#!/bin/bash
# Methods and their options, convert, show and bench on the command line.
#
#   test_cli_methods.sh COMMAND SOURCES BUILD
# shellcheck source=tests/cli/cli_help.sh
. "$2/tests/cli/cli_help.sh"
make_files
make project ball --geometry cone --source-axis 6 --source-detector 9 --views 60 --columns 36 \
	--pixel 0.125 --samples 2 -o cone.h5
make recon s.h5 $voxel -o fbp.h5
make recon s.h5 --method sirt --iterations 5 $voxel -o r.h5

# ---- algebraic methods -------------------------------------------------------------------------
for m in sirt art sart block cgls lsqr lsmr mlem osem fista pdhg asd-pocs; do
	check "recon $m" 0 recon s.h5 --method $m --iterations 4 $voxel --truth p.h5 -o m_$m.h5
	has "$m: iterations" out "$m: 4 iterations (all), residual"
	has "$m: the error" out ", error"
done
check "slices of sirt" 0 recon s.h5 --method sirt --iterations 4 $voxel --rows 5:9 --memory 1G --backend cpu -o some/
check "the first has its number" 0 convert m_sirt.h5 whole/
check "and its values" 0 compare whole/recon_00005.tiff some/recon_00005.tiff --max 1e-5
absent some/recon_00009.tiff
check "a window upside down" 2 recon s.h5 --type uint16 --window 1,0 -o x2.h5
has "its message" err "window 1,0: LOW must be below HIGH, and both finite"
check "a grid without voxels" 2 recon s.h5 --size 0 -o x2.h5
has "its message" err "size 0: it must be 1 voxel or more"
check "a range of views" 2 recon s.h5 --bad-views 3-5 -o x2.h5
has "its message" err "--bad-views: '3-5' is not a number; a list is written 3,4,5"
check "slices of a cone" 2 recon cone.h5 --method sirt --rows 5:9 -o x2.h5
has "its message" err "rows '5:9': iterative methods reconstruct some of the slices alone only where each"
check "columns of sirt" 0 recon s.h5 --method sirt --iterations 1 --columns 2:32 -o columns.h5
has "fewer" out "30 x 30 x 24 voxels"
check "too little memory for sirt" 1 recon s.h5 --method sirt --memory 100K --backend cpu -o x2.h5
has "its message" err "0.09766 MiB of memory are too few: one slice alone needs"
check "too little memory for tv" 1 recon s.h5 --method pdhg --strength 1 --memory 90M --backend cpu -o x2.h5
has "its message" err "pdhg of 24 slices together needs"
has "the reason" err "as its penalty couples neighbouring slices; set --penalty-within to 'slices'"
check "tv within slices" 0 recon s.h5 --method pdhg --strength 1 --penalty-within slices --iterations 1 \
	--memory 105M --backend cpu --verbose -o slices.h5
has "its groups" out "plan      2 slabs of up to 16 slices"
if grep -q "^note" err; then bad "a note about the penalty"; else ok "no note about the penalty"; fi
check "times of the stages" 0 recon s.h5 --backend cpu --timing --overwrite -o timing.h5
has "the table" out "stage            busy     amount        rate  of wall"
has "a stage" out "GB/s "
has "the longest" out "%  longest"
check "fista without a penalty" 0 recon s.h5 --method fista --iterations 1 --rows 0:2 -o fista.h5
has "a note" err "note: fista has no penalty without --strength: plain least squares"
check "fista that asks for none" 0 recon s.h5 --method fista --regulariser none --iterations 1 --rows 0:2 \
	--overwrite -o fista.h5
if grep -q "^note" err; then bad "a note about the penalty"; else ok "no note about the penalty"; fi
check "a scan as a folder" 0 convert s.h5 views/
rm views/*_00007.tiff
check "a folder with a gap" 0 recon views --arc 180 --axis 16.5 --rows 0:1 -o gap.h5
has "the missing number" err "warning: number 7 is missing after 'views/"
check "info of it" 0 info views
has "says it as well" out "missing   number 7 after 'views/"
check "a Zarr file" 0 convert s.h5 s.zarr
check "a level it does not have" 2 info s.zarr --level 9
has "its levels" err "level of resolution, 0 to 0; level is 9"
rm s.zarr/zarr.json
check "without its metadata" 1 info s.zarr
has "what is missing" err "has neither zarr.json nor .zgroup nor .zarray"
head -c 64 /dev/zero >plain.raw
check "numbers without a header" 1 info plain.raw
has "how they are read" err "are read with --raw"
check "a preview of sirt" 0 recon s.h5 --method sirt --iterations 1 --preview -o seen.npy
there seen_xy.png
check "the plan of sirt" 0 recon s.h5 --method sirt --dry-run --verbose -o x2.h5
has "its slabs" out "plan      2 slabs of up to 16 slices"
check "no output named" 0 recon s.h5 --method cgls --iterations 1 --rows 0:3 --verbose
there s_rec/recon_00002.tiff
has "the kernels" out "kernels   forward s"
check "another start" 0 recon s.h5 --method cgls --iterations 2 $voxel --start m_cgls.h5 -o m2.h5
check "a start of another shape" 1 recon s.h5 --method cgls --size 8 --start m_cgls.h5 -o x2.h5
has "its message" err "(z y x), but the reconstruction is 8 x 8 x 8 (z y x)"
check "iterations below 0" 2 recon s.h5 --method sirt --iterations -4 -o x2.h5
has "its message" err "--iterations -4: it must be from 0 to 1000000000"
check "a plot" 0 recon s.h5 --method sirt --iterations 4 $voxel --compare p.h5 --plot curve.png -o m3.h5
check "a plot over a file" 1 recon s.h5 --method sirt --iterations 4 $voxel --plot curve.png -o m4.h5
has "before the work" err "'curve.png' exists already; give --overwrite"
check "a plot of another kind" 2 recon s.h5 --method sirt --iterations 4 $voxel --plot curve.jpg -o m4.h5
has "its message" err "'curve.jpg' must end in .png"
there curve.png
check "a scan of few rows" 0 project p.h5 --views 40 --rows 12 --columns 34 -o rows12.h5
check "all at once" 0 recon rows12.h5 --method cgls --iterations 9 $voxel -o m4.h5
check "in two parts" 0 recon rows12.h5 --method cgls --iterations 5 --checkpoint ck $voxel -o m5.h5
check "the second part" 0 recon rows12.h5 --method cgls --iterations 9 --checkpoint ck --resume $voxel -o m6.h5
check "bit for bit" 0 compare m4.h5 m6.h5 --max 0
check "what a checkpoint is" 0 info ck
has "its method" out "method cgls"
has "how far it has come" out "iteration 9, residual 0."
check "nothing left to do" 0 recon rows12.h5 --method cgls --iterations 3 --checkpoint ck --resume $voxel --overwrite -o m6.h5
has "its message" out "cgls: 9 iterations (all; of the checkpoint, nothing was left to do), residual"
has "more than asked for" err "note: the checkpoint has 9 iterations, more than the 3 of --iterations: the volume has them all"
check "bit for bit" 0 compare m4.h5 m6.h5 --max 0
check "resume on another grid" 2 recon rows12.h5 --method cgls --size 24 --voxel 0.02 --checkpoint ck --resume -o x2.h5
has "its message" err "belongs to voxels of 0.0"
cp ck damaged
printf '####' | dd of=damaged bs=1 seek=9000 conv=notrunc 2>/dev/null
check "a damaged checkpoint" 1 info damaged
has "its message" err "checkpoint 'damaged' is damaged: its checksum is"
check "resume from it" 1 recon rows12.h5 --method cgls --checkpoint damaged --resume $voxel -o x2.h5
has "its message" err "checkpoint 'damaged' is damaged: its checksum is"
check "a checkpoint over a volume" 1 recon rows12.h5 --method cgls --checkpoint p.h5 $voxel -o x2.h5
has "its message" err "'p.h5' exists and is no checkpoint; name another file"
for beside in checkpoint history plot save-recipe; do
	check "$beside over the scan" 2 recon rows12.h5 --method cgls --$beside ./rows12.h5 --overwrite -o x2.h5
	has "its message" err "--$beside: './rows12.h5' is the input; write to another file"
	check "$beside over the output" 2 recon rows12.h5 --method cgls --$beside ./x2.h5 --overwrite -o x2.h5
	has "its message" err "-o and --$beside both name './x2.h5'; write to another file"
done
head -c 200 ck >short
check "a checkpoint cut short" 1 info short
has "its message" err "checkpoint 'short' ends too early"
check "a checkpoint of an earlier run" 1 recon rows12.h5 --method cgls --iterations 5 --checkpoint ck $voxel -o x2.h5
has "its message" err "'ck' is the checkpoint of an earlier run: --resume goes on from it, --overwrite begins again"
check "resume with other options" 2 recon rows12.h5 --method cgls --strength 1 --checkpoint ck --resume $voxel -o x2.h5
has "its message" err "belongs to strength 0, not to strength 1"
check "minimum of cgls" 2 recon s.h5 --method cgls --minimum 0 -o x2.h5
has "its message" err "--minimum has no effect with --method cgls"
check "start of fbp" 2 recon s.h5 --start p.h5 -o x2.h5
has "its message" err "--start has no effect with --method fbp or fdk"
check "a mask of another shape" 1 recon s.h5 --method sirt --mask ball.npy -o x2.h5
has "its message" err "the mask: 'ball.npy' is 4 x 6 x 8 (z y x), but the reconstruction is"
check "a mask that is not there" 1 recon s.h5 --method sirt --mask absent.h5 -o x2.h5
check "stop by the noise" 0 recon s.h5 --method sirt --iterations 500 --stop discrepancy --noise-level 0.2 $voxel -o m7.h5
has "says why it stopped" out "(discrepancy)"
check "lambda" 0 lambda s.h5 --noise 0.05 --iterations 2 --precision 0.3 --plot lambda.png
has "its result" out "relaxation 0."
there lambda.png
check "a history" 0 recon s.h5 --method sirt --iterations 4 $voxel --truth p.h5 --history a.csv -o m8.h5
check "another" 0 recon s.h5 --method cgls --iterations 6 $voxel --truth p.h5 --history b.csv -o m9.h5
check "both as curves" 0 curves a.csv b.csv --below 0.9 -o curves.png
has "the table" out "b                 least"
there curves.png
check "no history" 1 curves p.h5 -o x2.png
has "its message" err "'p.h5' is no history"
printf 'iteration,residual,error\n1,0.5,nan\n2,0.25,nan\n' >plain.csv
check "errors without a truth" 1 curves plain.csv -o x2.png
has "names the residuals" err "use --column residual"
check "its residuals" 0 curves plain.csv --column residual -o x2.png
check "lambda of cgls" 2 lambda --method cgls
has "its message" err "'cgls' is not one of sirt|art|sart|block|asd-pocs"
check "lambda without a bound" 2 lambda --columns 16 --views 8 --weights landweber
has "its message" err "name one with --largest"
check "filter of sirt" 2 recon s.h5 --method sirt --filter hann -o x2.h5
has "its message" err "--filter has no effect with --method sirt"
check "iterations of fbp" 2 recon s.h5 --iterations 3 -o x2.h5
has "its message" err "--iterations has no effect with --method fbp or fdk"
check "interpolation of fbp" 0 recon s.h5 --interpolation nearest -o nearest.h5
check "half data of fbp" 0 recon s.h5 --data half -o data_half.h5
check "half data of sirt" 0 recon s.h5 --method sirt --iterations 1 --data half -o data_half2.h5
check "quarter data" 2 recon s.h5 --data quarter -o x2.h5
check "interpolation that sirt lacks" 2 recon s.h5 --method sirt --interpolation oversampled -o x2.h5
check "interpolation of voxels in fbp" 2 recon s.h5 --voxel-interpolation nearest -o x2.h5
has "its message" err "--voxel-interpolation has no effect with --method fbp or fdk"
for option in "axis 3" "angles 1,2" "arc 90" "geometry cone" "pixel 2" "pixel-height 2" "axis-row 1" "source-axis 3" \
	"source-detector 4" "roll 1" "slant 1" "swivel 1" "tilt 1" "pitch 1" "axis-method vo" "axis-range 1,2"; do
	check "--$option beside a geometry" 2 recon s.h5 --$option -o x2.h5
	has "its message" err "--${option% *} has no effect: 's.h5' has a geometry of its own"
done
check "an axis beside a geometry, sirt" 2 recon s.h5 --method sirt --axis 3 -o x2.h5
check "an axis beside views" 2 recon s.h5 --views-file g.json --axis 3 -o x2.h5
has "its message" err "--axis has no effect: the views are those of 'g.json'"
check "a pixel for the phase" 2 recon s.h5 --phase paganin --pixel 2 -o x2.h5
has "its message" err "distance"
check "a source without views" 2 recon s.h5 --point-source -o x2.h5
has "its message" err "--point-source has no effect without a .txt file as --views-file"
check "projections alone" 0 convert s.h5 bare.npy
check "an axis, and where to look for it" 2 recon bare.npy --arc 180 --axis 3 --axis-range 1,2 -o x2.h5
has "its message" err "--axis-range has no effect: --axis sets the axis"
check "pixels of no width" 2 recon bare.npy --arc 180 --pixel 0 -o x2.h5
has "its message" err "--pixel is 0; it must be greater than 0"
for i in 1 2 3; do echo "100 $i 0 -60 0 0 0 1 0 0 0 1"; done >positions.txt
for i in 1 2 3; do echo "1 0 0 -60 0 0 0 1 0 0 0 1"; done >rays.txt
check "sources that are taken as rays" 0 project ball --views-file positions.txt --rows 3 --columns 9 -o x2.h5 --overwrite
has "is doubted" err "have lengths of 100.005 to 100.045 instead of 1: if they are source positions, give --point-source"
check "rays" 0 project ball --radius 3 --views-file rays.txt --rows 3 --columns 9 -o x2.h5 --overwrite
if [ -s err ]; then bad "rays are doubted: $(cat err)"; else ok "are not"; fi
rm -f x2.h5
check "reduction of metal artefacts without metal" 0 recon s.h5 --metal nmar --metal-threshold 100 -o x2.h5 --overwrite
has "says so" err "no metal found: no voxel is above"
check "with a threshold" 0 recon s.h5 --metal nmar --metal-threshold 1e-4 -o x2.h5 --overwrite
has "says how much there is" out "of the voxels, above 0.0001"
rm -f x2.h5
check "where to look for the axis of a helix" 2 recon bare.npy --geometry helix --arc 360 --source-axis 6 \
	--source-detector 9 --axis-method vo -o x2.h5
has "its message" err "--axis-method has no effect: the axis of a helix scan is not searched for"
check "a laminography scan" 0 project random --geometry laminography --tilt 35 --arc 360 --views 60 --columns 48 --rows 32 \
	--axis 25.3 -o tilted.npy
check "its axis" 0 center tilted.npy --geometry laminography --tilt 35 --arc 360
has "where it is" out "axis at column 25.3"
check "filtered back projection of it" 1 recon tilted.npy --geometry laminography --tilt 35 --arc 360 -o no.h5
has "which is for circles" err "this is a laminography scan; use an algebraic method, for instance sirt"
if grep -q "^axis" out; then bad "its axis was searched for first"; else ok "before anything else"; fi
check "threads give the same" 0 recon s.h5 --threads 1 $voxel -o fbp1.h5
check "bit for bit" 0 compare fbp.h5 fbp1.h5 --max 0
check "wrong truth" 1 recon s.h5 --compare ball.npy -o x2.h5
has "its message" err "'ball.npy' is 4 x 6 x 8 (z y x), but the reconstruction is"
check "a truth on another grid" 0 recon s.h5 --method sirt --iterations 1 --size 24 --voxel 0.1 --truth p.h5 -o x3.h5
has "its warning" err "warning: the voxels of 'p.h5' are 0.0833333 x"
check "a comparison on another grid" 0 recon s.h5 --size 24 --voxel 0.1 --compare p.h5 -o x4.h5
has "its warning" err "those of the reconstruction are 0.1 x"
check "grids that differ" 0 compare p.h5 x4.h5
has "its warning" err "those of 'x4.h5' are 0.1 x"
check "every without a checkpoint" 2 recon s.h5 --method sirt --every 3 -o x2.h5
has "its message" err "--every has no effect without --checkpoint"
check "no geometry" 0 recon bare.npy --arc 180 --axis 16.5 -o bare.h5
has "what is assumed" err "note: no geometry in 'bare.npy': parallel beam assumed; --geometry fan or cone"
check "a geometry by hand" 0 recon bare.npy --geometry parallel --arc 180 --axis 16.5 -o bare2.h5
if [ -s err ]; then bad "a geometry by hand is noted"; else ok "nothing to note"; fi
clean recon

check "compare with itself" 0 compare p.h5 p.h5 --max 0
for text in "relative L2" PSNR SSIM "largest difference"; do has "compare prints $text" out "$text"; done
check "and nothing to warn of" 0 compare p.h5 r.h5
if [ -s err ]; then bad "grids that agree warn"; else ok "grids that agree are silent"; fi
check "compare different shapes" 1 compare p.h5 ball.npy
has "its message" err "'p.h5' is 24 x 24 x 24 (z y x), but 'ball.npy' is 4 x 6 x 8 (z y x)"

check "h5 to npy" 0 convert p.h5 c.npy
has "notes the lost grid" err "hold no grid"
for file in c.nii c.nrrd c.vti; do
	check "h5 to $file" 0 convert p.h5 "$file"
	if grep -q "hold no grid" err; then bad "$file loses the grid"; else ok "$file holds the grid"; fi
	check "its facts" 0 info "$file"
	has "with the grid" out "24 x 24 x 24 voxels (x y z) of 0.083"
done
check "npy to tiff" 0 convert c.npy c.tiff
check "tiff to h5" 0 convert c.tiff c.h5 --voxel 0.0833333333333333
check "round trip keeps every bit" 0 compare p.h5 c.h5 --max 0
check "a volume as MetaImage" 0 convert p.h5 p.mha
check "its grid" 0 info p.mha
has "info has the grid" out "grid      24 x 24 x 24"
check "the same" 0 compare p.h5 p.mha --max 0
check "a volume as small numbers" 0 convert p.h5 p8.h5 --type uint8 --window 0,2 --compress 4
check "nearly the same" 0 compare p.h5 p8.h5 --max 0.02
check "its checksums" 0 info p8.h5 --verify
has "they fit" out "checksums as written"
check "small numbers without a window" 0 convert p.h5 p16.h5 --type uint16
has "says which it takes" out "the range of the values"
rm p16.h5
check "no checksums" 1 info p.mha --verify
check "info of both" 0 info p.h5
grep -A1 ^grid out >first
check "and" 0 info c.h5
if grep -A1 ^grid out | cmp -s - first; then ok "the grid is the same"; else bad "the grid differs"; fi
check "projections to npy" 0 convert s.h5 s.npy
check "and back with their views" 0 convert s.npy s2.h5 --views-file g.json
check "the same projections" 0 compare s.h5 s2.h5 --max 0
check "recon of the copy" 0 backproject s2.h5 -o b2.h5
check "recon without geometry" 1 recon s.npy -o x2.h5
has "its message" err "'s.npy' says no angles: give --angles, or --arc"
check "recon with views from a file" 0 backproject s.npy --views-file g.json -o b3.h5
check "the same volume" 0 compare b2.h5 b3.h5 --max 0
check "views that do not fit" 1 backproject c.npy --views-file g.json -o x2.h5
has "its message" err "24 x 24 x 24, but its geometry has 40 views of 24 rows x 34 columns"
check "convert over a file" 1 convert p.h5 c.npy
check "geometry of a volume" 1 convert p.h5 none.json
has "its message" err "no geometry"
printf '%s' '' >list
npy '3, 5' "$(printf '\\0%.0s' $(seq 60))" >sino.npy
check "one sinogram" 0 project ball --angles 0,60,120 --columns 5 -o s3.h5 --rows 1
check "its views" 0 convert s3.h5 s3.json
check "a 2D array is a sinogram" 0 backproject sino.npy --views-file s3.json -o sino.h5
check "as text, too" 0 convert s3.h5 s3.txt
check "a 2D array with text" 0 backproject sino.npy --views-file s3.txt -o sino2.h5
check "text that says ray" 2 backproject sino.npy --views-file s3.txt --point-source -o x2.h5
has "its message" err "begin with a ray, as the first one says, but --point-source is set"
check "sinogram to h5" 0 convert sino.npy sino3.h5 --views-file s3.json
has "views of one row" out "3 views of 1 row x 5 columns"
clean convert

check "show" 0 show p.h5 -o p.png
if [ "$(head -c 4 p.png | tail -c 3)" = PNG ]; then ok "a PNG"; else bad "not a PNG"; fi
has "three planes" out "1240 x 430 pixels"
check "show, bare" 0 show p.h5 --bare -o bare.png
has "a pixel per voxel" out "80 x 24 pixels"
check "show one slice" 0 show p.h5 --bare --slice 3 --range -0.1,1 -o p3.png
has "one plane" out "24 x 24 pixels, black -0.1, white 1"
check "show projections" 0 show s.h5 -o s.png
check "show a sinogram" 0 show s3.h5 --bare -o s3.png
has "alone" out "5 x 3 pixels"
check "slice out of range" 2 show p.h5 --slice 24 -o x.png
has "its message" err "--slice: 24 is not between 0 and 23"
check "range upside down" 2 show p.h5 --range 1,0 -o x.png
check "show over a file" 1 show p.h5 -o p.png
check "a picture of another kind" 2 show p.h5 -o x.jpg
has "its message" err "'x.jpg' must end in .png"
check "a picture to nowhere" 2 show p.h5 -o -
absent x.png
absent -

check "devices" 0 info devices
has "threads are told" out "threads   "
check "devices with threads" 0 info devices --threads 1
has "one thread" out "threads   1"
check "bench --list" 0 bench --list
for w in chilingaryan-2048-bp okitsu-256-bp okitsu-512-fdk nielsen-small-xy-sirt slice-1024-voxel; do
	has "workload $w" out "$w"
done
check "bench" 0 bench slice-1024-voxel --repeat 1 --json speed.json
has "a rate" out "GU/s"
has "its bound" out "bound   share by"
if grep -Eq '^slice-1024-voxel .* [0-9.]+ +[0-9.]+ % (cache|sums|memory), kernel [a-z]+$' out; then
	ok "the share of it"
else
	bad "no share of the bound"
fi
has "the bound in the file" speed.json '"bound_gups": '
has "its workload" speed.json '"name": "slice-1024-voxel"'
is_json speed.json
check "bench over a file" 1 bench slice-1024-voxel --repeat 1 --json speed.json
check "bench into no folder" 1 bench chilingaryan-2048-bp --json no/such.json
has "its message" err "'no/such.json' cannot be written: directory 'no/': No such file"
if grep -q median out; then bad "it measured first"; else ok "before it measures"; fi
check "unknown workload" 2 bench slice-1024-voxl
has "its message" err "unknown workload 'slice-1024-voxl'; nearest: slice-1024-voxel"

check "directions" 0 bench nielsen-sphere-small-adjoint --repeat 1 --backend cpu --by-view by-view.png
there by-view.png
has "its table" out "mostly along z    9 views  median"
has "how even it is" out "the slowest axis takes"
check "directions over a file" 1 bench nielsen-sphere-small-adjoint --by-view by-view.png
has "its message" err "'by-view.png' exists already; give --overwrite"
check "directions of several" 2 bench --by-view x.png
has "its message" err "--by-view: it is for one workload, not "
check "directions of a cone" 2 bench okitsu-256-bp --by-view x.png
has "its message" err "--by-view: okitsu-256-bp is not one projection along parallel rays"
check "directions of a method" 2 bench nielsen-small-xy-sirt --by-view x.png
check "directions as no picture" 2 bench nielsen-sphere-small-forward --by-view x.jpg
has "its message" err "'x.jpg' must end in .png"
check "directions and numbers" 2 bench nielsen-sphere-small-forward --by-view x.png --json x.json
has "its message" err "--by-view: there is no --json of it"
absent x.png
if "$2/scripts/directions" "$tomos" set-up-1 small --repeat 1 --backend cpu >out 2>err; then
	ok "scripts/directions"
else
	bad "scripts/directions fails"
fi
there set-up-1/directions-forward.png
there set-up-1/directions-adjoint.png

echo "$failures failed"
[ "$failures" = 0 ]
