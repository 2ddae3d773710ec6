#!/usr/bin/env bash
# Every file that a command writes is checked before the work: a folder that is not there, a file that may
# not be replaced. Nothing is computed then, and no output is left.
#
#   test_outputs.sh COMMAND
set -u
tomos=$(readlink -f "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failed=0
fail() {
	echo "FAILED: $1"
	cat out err
	failed=$((failed + 1))
}
# What it is, its message, the words: status 1, and nothing written or computed.
rejected() {
	local what=$1 message=$2
	shift 2
	"$tomos" "$@" >out 2>err
	[ $? = 1 ] || fail "$what: not status 1"
	grep -qF -- "$message" err || fail "$what: no message '$message'"
	[ -s out ] && fail "$what: the work was begun"
	[ -e v.h5 ] && fail "$what: there is an output"
	rm -rf v.h5
}

"$tomos" project shepp-logan --columns 16 --rows 8 --views 12 -q -o scan.h5 2>/dev/null || exit 1
for beside in history=none/h.csv plot=none/p.png save-recipe=none/r.ini checkpoint=none/c; do
	rejected "--$beside" "directory 'none/': No such file or directory; create it first" \
		recon scan.h5 --method sirt --iterations 2 --${beside%=*} "${beside#*=}" -o v.h5
done
rejected "fbp --save-recipe" "directory 'none/'" recon scan.h5 --save-recipe none/r.ini -o v.h5
rejected "--json" "directory 'none/'" bench --repeat 1 --json none/b.json
rejected "--sheet" "directory 'none/'" center scan.h5 --sweep 6:9:1 --sheet none/s.png
rejected "lambda --plot" "directory 'none/'" lambda scan.h5 --plot none/l.png
rejected "-o" "directory 'none/'" recon scan.h5 --method sirt --iterations 2 -o none/v.h5
touch there.csv there.png v_xy.png
rejected "--history over a file" "'there.csv' exists already; give --overwrite" \
	recon scan.h5 --method sirt --iterations 2 --history there.csv -o v.h5
rejected "lambda --plot over a file" "'there.png' exists already; give --overwrite" lambda scan.h5 --plot there.png
rejected "--preview over a file" "v_xy.png' exists already; give --overwrite" recon scan.h5 --preview -o v.h5

# Files that options name to be read are no outputs.
"$tomos" phantom ball --size 16,16,8 -q -o mask.npy || exit 1
"$tomos" recon scan.h5 --method sirt --mask mask.npy --overwrite -o mask.npy >out 2>&1
[ $? = 2 ] && grep -qF -- "-o: 'mask.npy' is an input, too; write to another file" out || fail "mask as output: $(cat out)"
"$tomos" recon scan.h5 --method sirt --start mask.npy --checkpoint ./mask.npy --overwrite -o v.h5 >out 2>&1
[ $? = 2 ] && grep -qF -- "--checkpoint: './mask.npy' is an input, too" out || fail "start as checkpoint: $(cat out)"

# A NumPy archive with angles is a scan, not a volume.
python3 - <<'END' || exit 1
import struct, zipfile
def npy(kind, shape, data):
    head = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)).encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data
with zipfile.ZipFile("archive.npz", "w") as z:
    z.writestr("data.npy", npy("<f4", (5, 3, 4), struct.pack("<60f", *range(60))))
    z.writestr("theta.npy", npy("<f8", (5,), struct.pack("<5d", *range(5))))
END
rejected "a scan as a volume" "'archive.npz' holds projections, not a volume" \
	project archive.npz --dataset data --views 4 -o v.h5
rm archive.npz

# Ranges of slices into one folder: nothing is deleted, and the numbers are the slices' or the ones given.
for method in fbp sirt; do
	"$tomos" recon scan.h5 -q --method $method --rows 2:4 -o rows/ >out 2>err || fail "$method: the first range"
	rejected "$method: a second range" "'rows/' holds 'recon_0000" \
		recon scan.h5 -q --method $method --rows 4:6 -o rows/ --overwrite
	[ "$(ls rows | tr '\n' ' ')" = "recon_00002.tiff recon_00003.tiff " ] || fail "$method: $(ls rows)"
	"$tomos" recon scan.h5 -q --method $method --rows 2:4 --first-number 7 -o seven/ >out 2>err || fail "$method: numbered"
	[ "$(ls seven | tr '\n' ' ')" = "recon_00007.tiff recon_00008.tiff " ] || fail "$method: $(ls seven)"
	rm -rf rows seven
done
echo "$failed failed"
[ "$failed" = 0 ]
