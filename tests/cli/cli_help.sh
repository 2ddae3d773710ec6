# Functions of the tests of the command, sourced with its arguments: COMMAND SOURCES BUILD. Runs in a folder of
# its own, which is removed at the end.
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
is_json() { # is_json FILE; unless there is no python3 to tell
	if ! command -v python3 >/dev/null || python3 -m json.tool "$1" >/dev/null; then
		ok "$1 is JSON"
	else
		bad "$1 is no JSON"
	fi
}
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
make() { "$tomos" "$@" -q || exit 1; }
# The files that several tests read: a volume, a scan and its geometry, a small ball.
make_files() {
	make phantom shepp-logan-modified --size 24 -o p.h5
	make phantom ball --size=8,6,4 --voxel 0.5 -o ball.npy
	make project p.h5 --views 40 -o s.h5
	make convert s.h5 g.json
	printf '0 45\n90,135\n' >list
}
voxel="--size 24 --voxel 0.0833333333333333"
