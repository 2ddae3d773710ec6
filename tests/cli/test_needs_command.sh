#!/usr/bin/env bash
# Options without effect: every one that the help says to need another, given alone; and the values that the
# command used to take for something else.
set -euo pipefail
tomos=$(readlink -f "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export LC_ALL=C TOMOS_TUNE=off

fail() {
	echo "test_needs_command: $*"
	exit 1
}

# rejected WORDS OPTIONS...: wrong usage with a message that has these words, and nothing written.
rejected() {
	local words=$1 code=0
	shift
	"$tomos" "$@" >out 2>&1 || code=$?
	[ "$code" = 2 ] || fail "$*: status $code, not 2: $(cat out)"
	grep -qF -- "$words" out || fail "$*: '$words' is not in: $(cat out)"
	[ ! -e x.h5 ] || fail "$*: x.h5 was written"
}

# accepted OPTIONS...
accepted() {
	"$tomos" "$@" >out 2>&1 || fail "$*: $(cat out)"
	rm -rf x.h5 x.npy x/
}

"$tomos" phantom shepp-logan-2d-modified --size 24 -q -o p.h5
"$tomos" project p.h5 --views 30 -q -o s.h5
"$tomos" convert s.h5 s.npy -q

# The help in one line per option: --name VALUE text.
options_of() {
	"$tomos" help "$1" | awk '/^  (-., )?--/ { if (line) print line; line = $0; next }
		/^          / { line = line " " $0; next } { if (line) print line; line = "" }' |
		sed 's/  */ /g; s/^ -., / /'
}

# Some value of the kind that the help names.
value_of() {
	case $1 in
	N | K | R | ROW | COLUMN | 0-9) echo 1 ;;
	NAME) echo "$2" | sed 's|.*(\([a-z0-9-]*\), \([a-z0-9-]*\)[,;].*|\2|' ;; # the second: the first may be none
	FIRST:END) echo 0:1 ;;
	FILE*) echo some.png ;;
	LOW,HIGH) echo 0,1 ;;
	*) echo 1 ;;
	esac
}

count=0
while read -r option value text; do
	case $text in *"needs --"*) ;; *) continue ;; esac
	need=$(echo "$text" | sed 's/.*needs \(--[a-z-]*\).*/\1/')
	words=("$option")
	# What follows a flag is its text already.
	[[ $value =~ ^[A-Z0-9][A-Z0-9:.,a-z-]*$ && ! $value =~ ^[A-Z]?[a-z]+$ ]] &&
		words+=("$(value_of "$value" "$text")")
	# The methods that have the option, where it is one of theirs.
	method=()
	scan=s.h5
	case $option in
	--seed) method=(--method sart) ;;
	--huber | --regulariser | --penalty-within) method=(--method fista) ;;
	--tolerance | --keep-best | --every | --voxel-interpolation | --accuracy) method=(--method sirt) ;;
	--resume) continue ;; # of a run, any; its other row needs a checkpoint
	--source-* | --tilt | --pitch) scan=s.npy ;; # one without a geometry of its own
	esac
	rejected "$option has no effect without" recon $scan "${words[@]}" "${method[@]}" -o x.h5
	grep -qF -- "$need" out || fail "$option: the message does not name $need: $(cat out)"
	count=$((count + 1))
done < <(options_of recon)
[ "$count" -ge 25 ] || fail "only $count options of recon have a need in the help"

# With it they are taken.
accepted recon s.h5 --method sirt --iterations 2 --stop change --tolerance 0.1 -o x.h5
accepted recon s.h5 --method sart --iterations 1 --order random --seed 3 -o x.h5
accepted recon s.h5 --method fista --iterations 1 --regulariser huber --strength 0.1 --huber 0.1 -o x.h5
accepted recon s.h5 --method sirt --iterations 2 --stop discrepancy --noise-level 0.1 -o x.h5
accepted recon s.h5 --rings wavelet --ring-levels 2 -o x.h5
accepted recon s.h5 --bad-views 3 --leave-out -o x.h5
accepted recon s.h5 --first-number 5 -o x/
accepted recon s.h5 --filter tukey --filter-parameter 0.3 -o x.h5
accepted recon s.h5 --method sirt --iterations 1 --forward voxel --voxel-interpolation nearest -o x.h5

# Those that depend on the output, the operand or the file.
rejected "--first-number has no effect without a folder of TIFF files as output" recon s.h5 --first-number 5 -o x.h5
rejected "--first-number has no effect" recon s.h5 --method sirt --first-number 5 -o x.h5
rejected "--compress has no effect without an HDF5 file" recon s.h5 --compress 3 -o x.npy
rejected "--window has no effect without --type uint16|uint8" recon s.h5 --window 0,1 -o x.h5
rejected "--noise-level has no effect without --stop discrepancy|monotone or --method asd-pocs" \
	recon s.h5 --method sirt --noise-level 0.1 -o x.h5
rejected "--boundary has no effect without --forward joseph|voxel or --back joseph|voxel" \
	recon s.h5 --method sirt --forward line --boundary clamp -o x.h5
rejected "--rings has no effect without rings in --steps" recon s.h5 --rings vo --steps normalize,log -o x.h5
rejected "--flat-average has no effect without flat fields, and 's.h5' has none" recon s.h5 --flat-average mean -o x.h5
rejected "floor has no effect without data that are not line integrals yet" recon s.h5 --floor 0.1 -o x.h5
rejected "--seed has no effect without the phantom random or --photons or --noise" project p.h5 --views 4 --seed 2 -o x.h5
rejected "--count has no effect without the phantom random" phantom ball --count 3 -o x.h5
rejected "--back is no option of this command; it is an option of: backproject, recon" project p.h5 --views 4 --back line -o x.h5
rejected "--geometry is no option of this command; it is an option of: project, recon" info s.h5 --geometry cone
rejected "--phase is no option of this command" center s.h5 --phase paganin
rejected "--backend has no effect on a named phantom" project ball --views 4 --backend cpu -o x.h5
rejected "--forward has no effect with --back" backproject s.h5 --forward line --back voxel -o x.h5
rejected "--data has no effect without a CUDA device" recon s.h5 --data half --backend cpu -o x.h5
rejected "--share has no effect without a GPU" recon s.h5 --method sirt --share views --backend cpu -o x.h5
rejected "--point-source has no effect without a .txt file" recon s.h5 --views-file g.json --point-source -o x.h5
rejected "--size has no effect with --show" tune --show --size 64
rejected "--type has no effect: 'g.json' holds views" convert s.h5 g.json --type uint16
accepted project p.h5 --views 4 --noise 0.1 --seed 2 -o x.h5

# Recipes repeat defaults, and leave out what has no effect.
"$tomos" recon s.h5 --rings vo --save-recipe r.ini -q -o x.h5
grep -q '^ring-snr = 3' r.ini || fail "no ring-snr in $(cat r.ini)"
if grep -q '^ring-alpha' r.ini; then fail "ring-alpha in $(cat r.ini)"; fi
rm x.h5
accepted recon s.h5 --recipe r.ini -o x.h5
printf '[prep]\nring-alpha = 0.1\nzinger-level = 0.1\n' >r2.ini
accepted recon s.h5 --recipe r2.ini -o x.h5
printf '[prep]\nring-alpha = 0.2\n' >r3.ini
rejected "--ring-alpha has no effect without --rings titarenko" recon s.h5 --recipe r3.ini -o x.h5

# Units on lengths; a detector on the axis.
accepted project p.h5 --geometry cone --source-axis 30cm --source-detector 300mm --views 4 -o x.h5
"$tomos" project p.h5 --geometry fan --source-axis 0.5m --source-detector 1000 --views 4 --axis 9 -q -o f.h5
"$tomos" info f.h5 >out
grep -qF "500 from the axis, 1000 from the detector" out || fail "units: $(cat out)"
rejected "the unit 'furlong' is not known for a length" project p.h5 --geometry cone --source-axis 3furlong \
	--source-detector 9 --views 4 -o x.h5
rejected "--pitch: '3 parsec': the unit 'parsec' is not known" project p.h5 --geometry helix --pitch "3 parsec" -o x.h5

# Two sizes; integers without a window.
"$tomos" recon s.h5 --size 16,20 -q -o two.h5
"$tomos" info two.h5 | grep -qF "16 x 20 x 1 voxels" || fail "--size 16,20: $("$tomos" info two.h5)"
"$tomos" phantom ball --size 6,4 -q -o flat.npy
"$tomos" recon s.h5 --method sirt --iterations 3 --type uint16 -o u.h5 >out
grep -q "^window .* the range of the values" out || fail "no window in: $(cat out)"
"$tomos" recon s.h5 --method sirt --iterations 3 -q -o f32.h5
"$tomos" compare f32.h5 u.h5 --max 1e-4 >out || fail "uint16 without a window: $(cat out)"
"$tomos" convert f32.h5 u8.tif --type uint8 -q
"$tomos" compare f32.h5 u8.tif --max 1e-2 >out || fail "uint8 without a window: $(cat out)"

# Names.
rejected "nearest: hann" recon s.h5 --filter hanning -o x.h5
rejected "nearest: --iterations" recon s.h5 --itrations 3 -o x.h5

# Angles of the file and others; pixels of point sources.
"$tomos" recon s.npy --arc 180 --axis 16.5 -q -o arc.h5
rejected "does not say the size of its pixels, which a cone scan needs: give it with --pixel" recon s.npy \
	--geometry cone --source-axis 100 --source-detector 200 --arc 360 -o x.h5
accepted recon s.npy --geometry fan --source-axis 100 --source-detector 200 --arc 360 --pixel 0.1 -o x.h5
rejected "has no angles to replace" recon s.npy --arc 180 --replace-angles -o x.h5
rejected "in equal steps it is at most 720 degrees" project p.h5 --views 4 --arc 1080 -o x.h5
rejected "a cone scan needs the size of its pixels" matrix --geometry cone --source-axis 9 --source-detector 9 \
	--views 4 --size 8 -o x.h5
rejected "it must be between -1e+30 and 1e+30" project p.h5 --geometry cone --source-axis 1e200 --source-detector 2e200 \
	--pixel 1 --columns 4 --views 4 -o x.h5
rejected "arc is 1e+200 degrees; it must be between" project p.h5 --views 4 --arc 1e200 -o x.h5

# A detector that is cut inside the object's shadow.
"$tomos" recon s.h5 --columns 8:26 -o cut.h5 >out 2>&1
grep -qF "warning: --columns 8:26 cuts the object off" out || fail "no warning of columns in: $(cat out)"
"$tomos" recon s.h5 --method sirt --iterations 1 --columns 8:26 -o cut2.h5 >out 2>&1
grep -qF "warning: --columns 8:26 cuts the object off" out || fail "no warning of columns in: $(cat out)"
"$tomos" project p.h5 --views 30 --columns 60 -q -o wide.h5
"$tomos" recon wide.h5 --columns 5:55 -o whole.h5 >out 2>&1
if grep -q warning out; then fail "a warning of columns without reason: $(cat out)"; fi
"$tomos" project p.h5 --views 30 --columns 18 -q -o narrow.h5
"$tomos" recon narrow.h5 -o narrow_rec.h5 >out 2>&1
grep -qF "warning: the object is wider than the detector" out || fail "no warning of a narrow detector in: $(cat out)"
grep -qF -- "--padding ellipse continues the rows" out || fail "the warning names no option: $(cat out)"
"$tomos" recon narrow.h5 --padding ellipse -o ellipse_rec.h5 >out 2>&1
if grep -q warning out; then fail "a warning in spite of --padding ellipse: $(cat out)"; fi
# One that fits: a phantom with the detector that it is given, and a ball that ends with the last column.
"$tomos" project shepp-logan-2d-modified --geometry fan --source-axis 6 --source-detector 9 --views 60 --columns 91 -q -o fits.h5 &&
	"$tomos" project ball --radius 1 --geometry parallel --views 60 --columns 64 --rows 1 --pixel 0.03125 -q -o ends.h5 ||
	fail "no scans"
for scan in fits ends; do
	"$tomos" recon $scan.h5 -o ${scan}_rec.h5 >out 2>&1
	if grep -q warning out; then fail "a warning of $scan.h5 without reason: $(cat out)"; fi
done

# MetaImage headers.
"$tomos" convert p.h5 p.mha -q
if head -c 4096 p.mha | grep -aq '\.\.\.\.'; then fail "dots in the header of p.mha"; fi
"$tomos" compare p.h5 p.mha --max 0 >out || fail "p.mha differs: $(cat out)"
