#!/bin/bash
# What a user types: every command, its mistakes, its exit status, and what it leaves behind.
#
#   test_cli.sh COMMAND SOURCES
if grep -q '^TOMOS_SANITIZE:[A-Z]*=thread' "${3:-.}/CMakeCache.txt" 2>/dev/null; then
	echo "skipped: with the thread sanitizer this takes ten minutes; the programs in C run there"
	exit 77
fi
set -u
# Sanitizers take ten times as long: numbers of samples shrink.
samples=4
slow=
if grep -q '^TOMOS_SANITIZE:[A-Z]*=.' "${3:-.}/CMakeCache.txt" 2>/dev/null; then
	samples=2
	slow=yes
fi
tomos=$(readlink -f "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0
export LC_ALL=C TOMOS_TUNE=off

ok() { echo "ok - $1"; }
bad() {
	echo "not ok - $1"
	sed 's/^/#   /' out err 2>/dev/null
	failures=$((failures + 1))
}
# check WHAT STATUS WORDS...: runs the command; its output is in out and err.
check() {
	local what=$1 wanted=$2 got
	shift 2
	"$tomos" "$@" >out 2>err
	got=$?
	if [ "$got" = "$wanted" ]; then ok "$what"; else bad "$what: status $got, not $wanted ($*)"; fi
}
has() { # has WHAT FILE TEXT
	if grep -qF -e "$3" "$2"; then ok "$1"; else bad "$1: '$3' is not in $2"; fi
}
there() { if [ -s "$1" ]; then ok "$1 was written"; else bad "$1 was not written"; fi; }
absent() { if [ -e "$1" ]; then bad "$1 exists"; else ok "$1 does not exist"; fi; }
# No temporary of any command may outlive it.
clean() {
	local left
	left=$(find . -name '*.part*')
	if [ -z "$left" ]; then ok "$1: nothing is left behind"; else bad "$1: left $left"; fi
}
# npy WORDS BYTES: a little 2D file of float32; WORDS is the shape, BYTES what printf makes of it.
npy() {
	printf '\x93NUMPY\x01\x00v\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($1), }"
	printf "$2"
}

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
voxel="--size 24 --voxel 0.0833333333333333"
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
check "memory of the processor" 0 recon s.h5 $voxel --memory 20M --backend cpu -o few.h5
check "is no device's" 0 compare fbp.h5 few.h5 --max 0
printf '# degrees\n0\n1.5\n-3\n' >list.txt
check "info on numbers" 0 info list.txt
has "how many" out "text, 3 numbers in 3 lines"
check "convert -o" 2 convert p.h5 -o p.npy
has "how it is called" err "unknown option '-o': tomos convert FROM TO [OPTIONS]"
TOMOS_THREADS=-3 check "a variable that is no number of threads" 2 version
has "its message" err "tomos version: TOMOS_THREADS is '-3': it must be the number of threads"
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
has "its message" err "rows '5:9': slices are reconstructed alone by an algebraic method only where"
check "columns of sirt" 0 recon s.h5 --method sirt --iterations 1 --columns 2:32 -o columns.h5
has "fewer" out "30 x 30 x 24 voxels"
check "too little memory for sirt" 1 recon s.h5 --method sirt --memory 100K --backend cpu -o x2.h5
has "its message" err "0.09766 MiB of memory are too few: one slice alone needs"
check "too little memory for tv" 1 recon s.h5 --method pdhg --strength 1 --memory 90M --backend cpu -o x2.h5
has "its message" err "pdhg of 24 slices together needs"
has "the reason" err "as its penalty couples neighbouring slices"
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
has "its message" err "'curve.jpg' does not end in .png"
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
has "more than asked for" err "the checkpoint has 9 iterations, --iterations are 3: more than asked for"
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
has "the table" out "b                least"
there curves.png
check "no history" 1 curves p.h5 -o x2.png
has "its message" err "'p.h5' is no history"
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
has "its message" err "--axis-range has no effect: --axis says where the axis is"
check "where to look for the axis of a cone" 2 recon bare.npy --geometry cone --arc 360 --source-axis 6 \
	--source-detector 9 --axis-method vo -o x2.h5
has "its message" err "--axis-method has no effect: the axis of a cone scan is not searched for"
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
has "three planes" out "80 x 24 pixels"
check "show one slice" 0 show p.h5 --slice 3 --range -0.1,1 -o p3.png
has "one plane" out "24 x 24 pixels, black -0.1, white 1"
check "show projections" 0 show s.h5 -o s.png
check "show a sinogram" 0 show s3.h5 -o s3.png
has "alone" out "5 x 3 pixels"
check "slice out of range" 2 show p.h5 --slice 24 -o x.png
has "its message" err "--slice: 24 is not between 0 and 23"
check "range upside down" 2 show p.h5 --range 1,0 -o x.png
check "show over a file" 1 show p.h5 -o p.png
check "a picture of another kind" 2 show p.h5 -o x.jpg
has "its message" err "'x.jpg' does not end in .png"
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
if ! command -v python3 >/dev/null || python3 -m json.tool speed.json >/dev/null; then
	ok "JSON is JSON"
else
	bad "JSON is broken"
fi
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
has "its message" err "'x.jpg' does not end in .png"
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

# ---- tuning ------------------------------------------------------------------------------------
export XDG_CACHE_HOME=$folder/cache
check "tune where it is off" 2 tune --size 32 --views 8
has "its message" err "TOMOS_TUNE is off, so nothing that was measured is kept"
unset TOMOS_TUNE
check "nothing measured yet" 0 tune --show --backend cpu
has "its message" out "nothing was measured on this device"
check "tune" 0 tune --size 32 --views 8 --slices 4 --seconds 1 --backend cpu
has "where it is kept" out "wrote $folder/cache/tomos/tune-cpu-"
check "tune --show" 0 tune --show --backend cpu
has "the rates" out "sums    at most"
if grep -Eq '^voxel  back    float slices    32\^2 +4 +8 +32 [* ] [a-z]+ ' out; then
	ok "what was measured"
else
	bad "no row of what was measured"
fi
sed -i 's/^kernel [^ ]*/kernel gone/' cache/tomos/tune-cpu-*
check "a kernel that is there no more" 0 tune --show --backend cpu
has "its message" out "no kernel of this build, ignored"
printf 'tomos tune 1\nrubbish' >cache/tomos/tune-cpu-*
check "a broken file is not fatal" 0 tune --show --backend cpu
has "nor used" out "nothing was measured on this device"
has "but told of" err "cannot be used: it is of another version; measure again"
has "by its name" out "file    $folder/cache/tomos/tune-cpu-"
check "tune for a scan" 0 tune s.h5 --seconds 0.5 --backend cpu
check "tune --forget" 0 tune --forget --backend cpu
has "what is gone" out "removed $folder/cache/tomos/tune-cpu-"
check "tune --forget again" 0 tune --forget --backend cpu
has "nothing there" out "nothing to remove: there is no $folder/cache/tomos/tune-cpu-"
check "forgotten" 0 tune --show --backend cpu
has "its message" out "nothing was measured on this device"
check "tune with sizes twice" 2 tune s.h5 --views 8
has "its message" err "--views: the sizes are those of 's.h5'"
check "two wishes" 2 tune --show --forget
has "its message" err "--show and --forget: give one of them"
check "negative slices" 2 tune --slices -1
has "its message" err "--slices and --columns must not be negative"
check "no time" 2 tune --size 32 --views 8 --seconds 0 --backend cpu
has "its message" err "0 seconds to measure in"
export XDG_CACHE_HOME=/dev/null/cache
check "nowhere to keep it" 1 tune --size 32 --views 8 --backend cpu
has "its message" err "the directory '/dev/null/cache' cannot be made"
check "nowhere to look" 0 tune --show --backend cpu
export TOMOS_TUNE=off
unset XDG_CACHE_HOME

check "-- ends the options" 1 info -- --help
has "an operand with hyphens" err "--help"

# ---- broken inputs -----------------------------------------------------------------------------
check "file that is not there" 1 info nofile.h5
has "its message names it" err "nofile.h5"
head -c 3000 p.h5 >short.h5
check "truncated HDF5" 1 project short.h5 --views 4 -o x2.h5
head -c 300 c.npy >short.npy
check "truncated npy" 1 project short.npy --views 4 -o x2.h5
has "its message names it" err "short.npy"
head -c 500 c.tiff >short.tiff
check "truncated TIFF" 1 project short.tiff --views 4 -o x2.h5
npy '2, 2' '\0\0\200\77\0\0\300\177\0\0\200\77\0\0\200\177' >nan.npy
printf '\x93NUMPY\x01\x00v\x00%-117s\n' "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }" >huge.npy
printf '\234\165\000\210\074\344\067\176' >>huge.npy # 1e300
check "a number beyond float32" 1 info huge.npy
has "its message" err "'huge.npy': 1e+300 does not fit float32"
check "NaN in a volume" 1 project nan.npy --views 4 -o x2.h5
has "its message" err "not finite"
has "counts them" err "2 values"
check "NaN in projections" 1 backproject nan.npy --views-file s3.json -o x2.h5
check "NaN in a comparison" 1 compare nan.npy nan.npy
check "info counts them" 0 info nan.npy
has "two of four" out "non-finite 2 of 4"
check "show draws the rest" 0 show nan.npy -o nan.png
check "views file that is not JSON" 1 backproject s.npy --views-file list -o x2.h5
check "a directory without pictures" 1 info .
absent x2.h5
clean "broken inputs"

# ---- Ctrl-C ------------------------------------------------------------------------------------
# interrupt WHAT SIGNALS WORDS...: sends them, a second apart, once the output is under construction.
interrupt() {
	local what=$1 signals=$2 pid i
	shift 2
	ls -A >before
	"$tomos" "$@" >out 2>err &
	pid=$!
	for ((i = 0; i < 300; i++)); do
		[ -n "$(find . -name '*.part*')" ] && break
		sleep 0.1
	done
	sleep 0.5
	for i in $signals; do
		kill -$i $pid 2>/dev/null
	done
	wait $pid
	local got=$?
	if [ $got = 130 ]; then ok "$what: status 130"; else bad "$what: status $got, not 130"; fi
	has "$what: its message" err "interrupted; "
	ls -A >after
	if cmp -s before after; then ok "$what: nothing is left"; else bad "$what: files are left"; fi
}
touch before after out err
# An algebraic method ends with its last iterate.
rm -f stopped.h5
"$tomos" recon rows12.h5 --method sirt --iterations 100000000 --checkpoint state -o stopped.h5 >out 2>err &
pid=$!
for _ in $(seq 100); do
	sleep 0.1
	if grep -q "sirt on" out; then break; fi
done
sleep 0.5
kill -INT $pid
wait $pid
if [ $? = 130 ]; then ok "recon: status 130"; else bad "recon: another status than 130"; fi
has "recon: its message" err "iterations; 'stopped.h5' is the last one, and --resume --overwrite goes on"
there stopped.h5
there state
check "the last iterate can be read" 0 info stopped.h5
clean "an interrupted recon"
rm -f stopped.h5
for signal in INT HUP TERM; do
	interrupt "project, $signal" $signal project random --count 100 --samples $samples --rows 200 \
		--columns 200 --views 500 -o stopped.h5
	has "says what is left" err "interrupted; nothing was written"
done
# One step of half a minute ends within itself, also where a second signal follows at once.
check "a larger scan" 0 project ball --views 300 --columns 200 --rows 200 -o large.h5
for signals in INT "INT INT"; do
	start=$SECONDS
	interrupt "backproject, $signals" "$signals" backproject large.h5 --forward line --plain --size 200 \
		--threads 1 -o stopped.h5
	if [ $((SECONDS - start)) -le 10 ]; then ok "at once"; else bad "it took $((SECONDS - start)) s"; fi
done
# It is shown before its first step has ended, also where nobody knows how many there are.
for words in "backproject large.h5 --forward line --plain --size 200" "recon large.h5 --method fista --strength 1e-9 --size 160"; do
	"$tomos" $words --threads 1 -o stopped.h5 >out 2>err &
	pid=$!
	for _ in $(seq 50); do
		sleep 0.1
		if grep -q "^back projecting: 0 %\|^norm: at work" err; then break; fi
	done
	kill -INT $pid
	wait $pid
	if grep -q "^back projecting: 0 %\|^norm: at work" err; then ok "$words is shown"; else bad "$words is not shown"; fi
	absent stopped.h5
done
# A method that diverges is a failure, not a wrong word, and leaves nothing.
check "landweber too fast" 1 recon s.h5 --method sirt --weights landweber --relaxation 1e9 --iterations 9 -o d.h5
has "says so" err "sirt diverged: the residual after iteration"
has "and what to do" err "a relaxation below 1e+09 may help"
absent d.h5
check "a norm too small" 1 recon s.h5 --method fista --norm 1e-6 -o d.h5
has "says so" err "a norm above 1e-06 may help"
absent d.h5
check "no norm" 2 recon s.h5 --method pdhg --norm=-1 -o d.h5
check "a norm for nothing" 2 recon s.h5 --method sirt --norm 3 -o d.h5
rm -f large.h5
# Lines in a log: at most one for the start and each tenth, none when quiet.
check "a log" 0 project random --count 20 --samples $samples --rows 100 --columns 100 --views 100 -o log.h5
if [ "$(grep -c '^projecting:' err)" -le 11 ]; then ok "at most eleven lines"; else bad "too many lines"; fi
check "a quiet log" 0 project random --count 20 --samples $samples --rows 100 --columns 100 --views 100 \
	-o log.h5 --overwrite --quiet
if [ ! -s err ]; then ok "quiet has no lines"; else bad "quiet has lines"; fi
if [ -w /dev/full ]; then
	"$tomos" help >/dev/full 2>err
	if [ $? = 1 ]; then ok "a full disk is a failure"; else bad "a full disk passes"; fi
fi

echo "$failures failed"
[ "$failures" = 0 ]
