#!/bin/bash
# Every command as typed by a user: mistakes, exit status, output, and what it leaves behind.
#
#   test_cli.sh COMMAND SOURCES BUILD
# shellcheck source=tests/cli/cli_help.sh
. "$2/tests/cli/cli_help.sh"

# ---- help, version, pages ----------------------------------------------------------------------
check "no command is wrong usage" 2
check "help" 0 help
for c in phantom project backproject recon lambda curves info compare convert show bench tune help version; do
	has "help lists $c" out "  $c "
done
check "--help" 0 --help
check "--version" 0 --version
has "the version" out "tomos "
check "-V" 0 -V
for c in phantom project backproject recon lambda curves info compare convert show bench tune help version; do
	check "help $c" 0 help $c
	cp out first
	has "usage of $c" out "Usage: tomos $c"
	has "examples of $c" out "Examples:"
	check "$c --help" 0 $c --help
	if cmp -s out first; then ok "$c: both helps agree"; else bad "$c: helps differ"; fi
	twice=$(grep -o '^  \(-., \)\?--[a-z-]*' out | sort | uniq -d)
	if [ -z "$twice" ]; then ok "$c: each option once"; else bad "$c: twice $twice"; fi
	if [ "$(wc -L <out)" -le 80 ]; then ok "$c: 80 columns"; else bad "$c: wider than 80 columns"; fi
done
check "recon -h" 0 recon -h
has "a default is shown" out "default: ram-lak"
has "choices are shown" out "butterworth"
has "a library row is shown with hyphens" out "--filter-taps R"
check "help of an unknown command" 2 help recno
has "and the nearest" err "nearest: recon"
check "man page" 0 help --man
cp out tomos.1
has "man page has a title" tomos.1 ".TH TOMOS 1"
has "man page has every option" tomos.1 'source\-detector'
has "man page has the environment" tomos.1 "TOMOS_CPU"
has "man page has the phantoms" tomos.1 'shepp\-logan\-2d'
if command -v man >/dev/null && man --warnings -l tomos.1 >/dev/null 2>err && [ ! -s err ]; then
	ok "man reads the page without a warning"
elif command -v man >/dev/null; then
	bad "man warns"
else
	ok "man page # skip: no man here"
fi
if command -v mandoc >/dev/null; then
	if mandoc -Tlint -Werror tomos.1 >out 2>err; then ok "mandoc -Tlint"; else bad "mandoc -Tlint"; fi
fi
check "completion script" 0 help --bash-completion
cp out completion
complete_words() { # complete_words WORDS...: what the last word can become
	bash -c '. ./completion; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tomos; echo "${COMPREPLY[@]}"' \
		- "$@" >out 2>err
}
complete_words tomos re
has "completes commands" out "recon"
complete_words tomos recon --filter-
has "completes options" out "--filter-taps"
complete_words tomos recon --filter ha
has "completes choices" out "hamming hann"
touch afile
complete_words tomos recon afi
has "completes files" out "afile"
touch "a file"
complete_words tomos recon "a f"
has "completes files with blanks" out "a file"
complete_words tomos recon --filter = ha
has "completes choices after =" out "hamming hann"
complete_words tomos recon --filter =
has "completes all choices after =" out "ram-lak shepp-logan"
complete_words tomos phantom she
has "completes phantoms" out "shepp-logan-2d"
if [ ! -s err ]; then ok "completion is silent"; else bad "completion prints"; fi

# ---- mistakes in the words ---------------------------------------------------------------------
check "unknown command" 2 phantm
has "its message" err "tomos: unknown command 'phantm'; nearest: phantom"
check "unknown option" 2 recon x.h5 --itertions 3
has "its message" err "tomos recon: unknown option '--itertions'; nearest: --iterations"
check "option of another command" 2 phantom ball --iterations 3 -o x.h5
check "unknown option with a value" 2 recon x.h5 --szie=3
has "its message" err "unknown option '--szie'; nearest: --size"
check "unknown letter" 2 recon -x
has "its message" err "unknown option '-x'"
check "missing value" 2 recon x.h5 --iterations
has "its message" err "--iterations needs a value"
check "missing value of a letter" 2 phantom ball -o
has "its message" err "-o needs a value"
check "bad number" 2 recon x.h5 -o y.h5 --iterations ten
has "its message" err "--iterations: 'ten' is not a whole number"
check "trailing junk" 2 recon x.h5 -o y.h5 --relaxation 1.5x
has "its message" err "--relaxation: '1.5x' is not a number"
check "not a finite number" 2 recon x.h5 -o y.h5 --relaxation nan
check "number too large" 2 recon x.h5 -o y.h5 --iterations 99999999999999999999
check "unknown choice" 2 recon x.h5 -o y.h5 --filter han
has "its message" err "--filter: 'han' is not one of"
has "and the nearest" err "nearest: hann"
check "value for a flag" 2 recon x.h5 -o y.h5 --plain=1
has "its message" err "--plain takes no value"
check "hole in a list" 2 phantom ball --size 3,,3 -o y.h5
has "its message" err "--size: a number is missing in '3,,3'"
check "fraction in a list of whole numbers" 2 phantom ball --size 3.5 -o y.h5
has "its message" err "--size: 3.5 is not a whole number"
check "four sizes" 2 phantom ball --size 3,4,5,6 -o y.h5
check "list file that is not there" 2 project ball --angles @none -o y.h5
has "says why" err "cannot read the list 'none': No such file"
has "its message" err "--angles: cannot read the list 'none'"
echo "1 2 x" >list
check "list file with a word" 2 project ball --angles @list -o y.h5
has "its message" err "--angles: 'x' is not a number"
: >list
check "empty list file" 2 project ball --angles @list -o y.h5
has "its message" err "there is no number"
check "missing operand" 2 recon -o y.h5
has "its message" err "tomos recon: SCAN is missing: tomos recon SCAN"
check "too many operands" 2 info a b
has "its message" err "'b' is one word too many"
check "no output" 2 phantom ball
has "its message" err "no output"
check "unknown phantom" 2 phantom shep-logan -o y.h5
has "its message" err "nearest: shepp-logan"
check "threads out of range" 2 info devices --threads -3
has "its message" err "--threads: -3 threads: the number must be 0 (all cores) to 1024"
check "more threads than there can be" 2 info devices --threads 1025
has "its message" err "1025 threads: the number must be 0 (all cores) to 1024"
check "more threads than an int" 2 info devices --threads 4294967297
has "its message" err "to 1024"
absent y.h5

# ---- the commands ------------------------------------------------------------------------------
check "phantom" 0 phantom shepp-logan-modified --size 24 -o p.h5
there p.h5
has "says what it wrote" out "wrote p.h5: 24 x 24 x 24"
check "quiet phantom" 0 phantom ball --size=8,6,4 --voxel 0.5 -q -o ball.npy
if [ ! -s out ] && [ ! -s err ]; then ok "quiet is quiet"; else bad "quiet speaks"; fi
check "phantom with negative numbers" 0 phantom ball --size 8 --centre -0.5,0,-1e-1 --value -2 -o neg.h5
check "its info" 0 info neg.h5
has "negative values arrive" out "values    -2 to 0"
has "negative centre arrives" out "the first at (-1.375, 0.875, -0.975)"
check "2D phantom" 0 phantom shepp-logan-2d --size 32 --samples 2 -o slice.tiff
check "info of a slice" 0 info slice.tiff
has "one slice" out "1 x 32 x 32"
has "its format" out "format    tiff"
check "existing output" 1 phantom ball --size 8 -o p.h5
has "its message" err "tomos phantom: 'p.h5' exists already; give --overwrite to replace it"
check "overwrite" 0 phantom shepp-logan-modified --size 24 -o p.h5 --overwrite
mkdir elsewhere
check "a file elsewhere" 0 phantom ball --size 8 -o elsewhere/e.h5
ln -s elsewhere/e.h5 link.h5
check "over a link" 1 phantom ball --size 6 -o link.h5
check "through a link" 0 phantom ball --size 6 -o link.h5 --overwrite
if [ -L link.h5 ]; then ok "it stays a link"; else bad "the link was replaced"; fi
check "its target" 0 info elsewhere/e.h5
has "is new" out "6 x 6 x 6"
check "output over the input" 2 convert p.h5 ./p.h5 --overwrite
has "its message" err "'./p.h5' is the input"
check "output over the input through a link" 2 project elsewhere/e.h5 --views 4 -o link.h5 --overwrite
check "output in no folder" 1 phantom ball --size 8 -o no/such/p.h5
has "its message" err "directory 'no/such/': No such file or directory; create it first"
check "output of no known format" 2 phantom ball --size 8 -o p.xyz
absent p.xyz
for size in 20000 100000; do
	check "a volume beyond memory" 1 phantom ball --size $size -o huge.h5
	has "its message" err "no memory for the volume: $size x $size x $size floats"
done
# A limit on the size of files stands for a full disk: a message, no signal, nothing left.
(ulimit -f 10 && exec "$tomos" phantom ball --size 64 -o huge.h5) >out 2>err
if [ $? = 1 ]; then ok "a full disk: status 1"; else bad "a full disk: another status than 1"; fi
has "its message" err "'huge.h5': cannot be created: File too large"
absent huge.h5
clean phantom

check "project" 0 project p.h5 --views 40 -o s.h5
has "says what it wrote" out "wrote s.h5: 40 views of 24 rows x 34 columns"
printf '0 45\n90,135\n' >list
check "project with a list file" 0 project p.h5 --angles @list -o four.h5
has "four views" out "4 views"
check "project with negative angles" 0 project p.h5 --angles -10,-5.5,3 --axis-row=-1 -o three.h5
has "three views" out "3 views"
check "degrees on the command line" 0 project p.h5 --angles 90 -o one.h5
check "info of it" 0 info one.h5
has "radians inside" out "first view at 90 degrees"
check "project cone beam" 0 project p.h5 --geometry cone --source-axis 6 --source-detector 9 \
	--views 40 -o cone40.h5
check "info of cone beam" 0 info cone40.h5
for text in "content   projections" "point source, 6 from the axis, 9 from the detector" \
	"40 views" "values    " "non-finite 0 of"; do
	has "info says $text" out "$text"
done
check "cone beam without distances" 2 project p.h5 --geometry cone --views 4 -o x2.h5
has "its message" err "a cone scan needs --source-axis"
check "project a phantom" 0 project shepp-logan-modified --views 40 --columns 34 --rows 24 \
	--pixel 0.0833333333333333 --samples 2 -o exact.h5
check "the two are near" 0 compare exact.h5 s.h5 --max 0.2
check "noise" 0 project p.h5 --views 40 --noise 0.05 --seed 7 -o noisy.h5
check "and the same again" 0 project p.h5 --views 40 --noise 0.05 --seed 7 -o again.h5
check "noise has its level" 0 compare s.h5 noisy.h5
has "five percent" out "relative L2         0.05"
check "noise from a seed" 0 compare noisy.h5 again.h5 --max 0
check "photons" 0 project p.h5 --views 40 --photons 1e5 -o photons.h5
check "photons make noise" 1 compare s.h5 photons.h5 --max 1e-6
has "its message" err "larger than 1e-06"
check "no photons and no noise" 0 project p.h5 --views 40 --photons 0 --noise 0 -o none.h5
check "change nothing" 0 compare s.h5 none.h5 --max 0
check "negative noise" 2 project p.h5 --views 4 --noise -1 -o x2.h5
check "unknown backend" 2 project p.h5 --views 4 --backend cpo -o x2.h5
has "its message" err "nearest: cpu"
check "option of phantoms on a file" 2 project p.h5 --views 4 --radius 2 -o x.h5
has "its message" err "--radius has no effect"
check "projector of a phantom" 2 project ball --views 4 --forward line -o x.h5
has "its message" err "--forward has no effect"
check "no views" 2 project p.h5 -o x.h5
has "its message" err "say how many views: --views N, or --angles"
check "a phantom mistyped" 1 project shep-logan --views 4 -o x2.h5
has "its message" err "there is no file 'shep-logan', and it is no phantom; nearest: shepp-logan"
for words in "--voxel 0" "--size 0" "--radius 0"; do
	check "phantom $words" 2 phantom ball $words -o x2.h5
done
check "no view" 2 project ball --views 0 -o x2.h5
check "projecting projections" 1 project s.h5 --views 4 -o x.h5
has "its message" err "'s.h5' holds projections, not a volume"
check "photons below zero" 2 project p.h5 --views 4 --photons -1 -o x2.h5
has "its message" err "--photons: -1 is below 0"
check "count of a ball" 2 phantom ball --count 3 -o x2.h5
has "its message" err "--count has no effect without the phantom random"
check "seed of a ball" 2 phantom ball --seed 3 -o x2.h5
check "count of a ball that is projected" 2 project ball --count 3 --views 4 -o x2.h5
check "shapes of projections" 1 compare s.h5 four.h5
has "have their names" err "'s.h5' is 40 views of 24 rows x 34 columns, but 'four.h5' is 4 views"
check "project an npy with a voxel" 0 project ball.npy --voxel 0.5 --views 4 -o x.h5
has "rows and columns fit" out "4 views of 4 rows x 10 columns"
check "a source inside the object" 1 project ball --geometry cone --source-axis 0.5 \
	--source-detector 3 --views 4 -o x2.h5
has "its message" err "the source, 0.5 from the axis, is inside the object, which reaches 1"
check "a voxel size for a file that has one" 2 project p.h5 --voxel 2 --views 4 -o x2.h5
has "its message" err "has a grid of its own, with voxels of 0.0833333 x"
check "in convert, too" 2 convert p.h5 x2.h5 --voxel 2
check "geometry out" 0 convert s.h5 g.json
check "info of a geometry file" 0 info g.json
has "its views" out "geometry  40 views of 24 rows x 34 columns, pixels of"
has "its angles" out "first view at 0 degrees, last at 175.5"
check "geometry as text" 0 convert cone40.h5 g.txt
check "info of it" 0 info g.txt
has "its source" out "point source, 6 from the axis, 9 from the detector"
check "helix" 0 project p.h5 --geometry helix --source-axis 6 --source-detector 9 --pitch 1 \
	--views 9 -o helix.h5
check "info of it" 0 info helix.h5
if grep -q "last at" out; then bad "angles of a helix"; else ok "no angles of a helix"; fi
check "views from a file" 0 project p.h5 --views-file g.json -o same.h5
check "the same projections" 0 compare s.h5 same.h5 --max 1e-6
check "views twice" 2 project p.h5 --views-file g.json --arc 90 -o x2.h5
has "its message" err "--arc has no effect with --views-file"
clean project

check "backproject" 0 backproject s.h5 --size 24 --voxel 0.0833333333333333 -o b.h5
check "backproject voxel-driven" 0 backproject cone40.h5 --size 24,20,16 --back voxel -o bv.h5
has "the grid asked for" out "16 x 20 x 24 (z y x)"
# Work for two pieces, of which the second would be the one slice that lies in the plane of the fan.
if [ -z "$slow" ]; then
	check "a fan of many views" 0 project ball --geometry fan --source-axis 100 --source-detector 150 \
		--columns 16 --pixel 0.3 --views 200000 -o many.h5
	fan="backproject many.h5 --forward voxel --voxel 0.1"
	check "slices of a fan" 0 $fan --size 26,26,17 --centre=0,0,-0.8 -o slices/
	check "two of them" 0 $fan --size 26,26,2 --centre=0,0,-0.05 -o two/
	check "pieces do not show" 0 compare slices/recon_00016.tiff two/recon_00001.tiff --max 1e-6
	rm -rf many.h5 slices two
fi
check "backproject a volume" 1 backproject p.h5 -o x2.h5
has "its message" err "'p.h5' holds a volume, not projections"
check "recon sirt" 0 recon s.h5 --method sirt --iterations 50 --minimum 0 $voxel --compare p.h5 -o r.h5
has "prints the error" out "relative L2"
check "sirt is near the truth" 0 compare p.h5 r.h5 --max 0.4
check "recon fbp by itself" 0 recon s.h5 $voxel -o fbp.h5
has "says its method" out "fbp on"
# A ball of value 1, scanned exactly, comes back with that value.
check "the true ball" 0 phantom ball --size 24 --samples 4 -o tball.h5
for kind in parallel cone fan; do
	distances="--source-axis 6 --source-detector 9"
	[ $kind = parallel ] && distances=
	check "$kind scan of a ball" 0 project ball --geometry $kind $distances --views 60 \
		--columns 36 --pixel 0.125 --samples 2 -o $kind.h5
	check "recon of it" 0 recon $kind.h5 $voxel -o r$kind.h5
done
check "fbp is near the truth" 0 compare tball.h5 rparallel.h5 --max 0.2
check "fdk is near the truth" 0 compare tball.h5 rcone.h5 --max 0.1
# A fan in each slice: the rows are the slices.
check "a stack of fans" 0 project ball --geometry fan --rows 24 --source-axis 6 --source-detector 9 \
	--views 60 --columns 36 --pixel 0.125 --samples 2 -o fans.h5
check "info of it" 0 info fans.h5
has "its sources" out "a fan for each row, its source 6 from the axis, 9 from the detector"
check "recon of it" 0 recon fans.h5 -o rfans.h5 --size 24
has "says its method" out "fbp on"
check "fans are near the truth" 0 compare tball.h5 rfans.h5 --max 0.2
check "three slices of it" 0 recon fans.h5 --rows 5:8 -o fans3/
check "all of them" 0 recon fans.h5 -o fans24/
check "slices stand alone" 0 compare fans3/recon_00006.tiff fans24/recon_00006.tiff --max 0
check "three by sirt" 0 recon fans.h5 --method sirt --iterations 2 --rows 5:8 -o fans3s.h5
check "its views as text" 0 convert fans.h5 fans.txt
check "read again" 0 project tball.h5 --views-file fans.txt --point-source -o fans2.h5
check "show the same" 0 compare fans.h5 fans2.h5 --max 0.05
check "cutoff out of range" 2 recon parallel.h5 --cutoff 2 -o x2.h5
check "recon fdk by itself" 0 recon cone.h5 --filter hann -o fdk.h5 --size 24
has "says its method" out "fdk on"
check "a quarter turn" 0 project ball --arc 90 --views 40 --columns 32 -o arc.h5
check "is reconstructed" 0 recon arc.h5 -o rarc.h5
has "with a warning" err "warning: the views cover 90 of 180 degrees: values will be too low"
check "but sirt has none" 0 recon arc.h5 --method sirt --iterations 2 -o rarc2.h5
if grep -q warning err; then bad "sirt warns"; else ok "sirt is silent"; fi
check "a half turn" 0 recon parallel.h5 $voxel -o half.h5
if grep -q warning err; then bad "a half turn warns"; else ok "a half turn is silent"; fi
if [ -z "$slow" ]; then # long enough for a line of progress
	make project shepp-logan-2d --views 600 --columns 448 --rows 48 -o long.h5
	TOMOS_CPU=base check "a run of a second or more" 0 recon long.h5 --threads 1 -o long_v.h5
	if grep -q 'in 0\.[0-9]* s: read' out err; then
		ok "progress # skip: the run was too short for a line"
	else
		has "its progress names the limiting stage" err "slices/s, limited by reconstruct"
	fi
	rm -f long.h5 long_v.h5
fi
check "memory of the processor" 0 recon s.h5 $voxel --memory 20M --backend cpu -o few.h5
check "is no device's" 0 compare fbp.h5 few.h5 --max 0
printf '# degrees\n0\n1.5\n-3\n' >list.txt
check "info on numbers" 0 info list.txt
has "how many" out "text, 3 numbers in 3 lines"
check "convert -o" 2 convert p.h5 -o p.npy
has "how it is called" err "unknown option '-o': tomos convert FROM TO [OPTIONS]"
TOMOS_THREADS=-3 check "a variable that is no number of threads" 2 version
has "its message" err "tomos version: TOMOS_THREADS is '-3': it must be the number of threads"

echo "$failures failed"
[ "$failures" = 0 ]
