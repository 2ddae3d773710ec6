#!/usr/bin/env bash
# Numbers out of range, data that cannot be reconstructed, and units of any size: rejected with a message or
# reconstructed, but never a volume of zeros or NaN with status 0, nor a file left over.
set -euo pipefail
tomos=$1
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
	echo "test_numbers_command: $*"
	exit 1
}

# The words in $1 are in the message of the command that follows, which ends with status $2 and leaves nothing.
rejected() {
	local words=$1 status=$2 code=0
	shift 2
	timeout 60 "$tomos" "$@" -q >out 2>&1 || code=$?
	[ "$code" = "$status" ] || fail "$*: status $code, not $status: $(cat out)"
	grep -qF -- "$words" out || fail "$*: '$words' is not in: $(cat out)"
	[ -z "$(find . -name '*v.h5*' -o -name '.*.journal')" ] || fail "$*: left $(ls -a)"
}

PYTHONDONTWRITEBYTECODE=1 python3 -c "import sys
sys.path.insert(0, '$here')
import random_scans
random_scans.make_pool('$tomos', '.')"

# Options whose arithmetic would overflow, or whose numbers floats cannot hold.
most=9223372036854775807
rejected "--zinger-size $most: it must be from 1 to 99" 2 prep exchange.h5 --zingers space --zinger-size $most -o v.h5
rejected "--zinger-size $most" 2 recon exchange.h5 --zingers time --zinger-size $most -o v.h5
rejected "--ring-large 100001: it must be from 0 to 999" 2 prep exchange.h5 --rings vo --ring-large 100001 -o v.h5
rejected "--ring-small $most" 2 prep exchange.h5 --rings vo --ring-small $most -o v.h5
rejected "--filter-taps $most" 2 recon parallel.h5 --filter-taps $most -o v.h5
rejected "--iterations $most: it must be from 0" 2 lambda --views 6 --columns 10 --iterations $most
rejected "--first-number $most" 2 recon parallel.h5 --first-number $most -o v.h5/
rejected "--ring-alpha 1e-20: it must be from 1e-08" 2 recon exchange.h5 --rings titarenko --ring-alpha 1e-20 -o v.h5
rejected "--hardening 1e+300" 2 recon exchange.h5 --hardening 1e300 -o v.h5
rejected "--response 1e+308" 2 recon parallel.h5 --response 1e308,1,1 -o v.h5

# Data: too large, not finite, without light; the rows of one axis taken for those of another.
rejected "not finite, the first at [0][0][0]" 1 recon huge.npy --arc 180 --axis 16.5 -o v.h5
rejected "not finite" 1 backproject huge.npy --views-file parallel.json --voxel 1 -o v.h5
rejected "none of 1632 values is finite" 1 recon allnan.npy --arc 180 --axis 16.5 -o v.h5
rejected "none of 1632 values is finite and has light" 1 recon noflat.h5 --arc 180 --axis 16.5 -o v.h5
rejected "none of 1632 values is finite and has light" 1 recon noflat.h5 --arc 180 --axis 16.5 --method sirt -o v.h5
rejected "has light" 1 prep noflat.h5 -o v.h5
rejected "whose layout is projections" 2 prep parallel.h5 --layout sinograms -o v.h5
rejected "whose layout is projections" 2 center parallel.h5 --layout sinograms
"$tomos" recon nan.npy --arc 180 --axis 16.5 -o nan.h5 >out
grep -q "repaired  2 values" out || fail "two values that are not finite are repaired and reported: $(cat out)"

# Expectation maximisation in small units and large ones.
for radius in 1e-7 1 1e7; do
	"$tomos" phantom ball --radius $radius --size 16,16,4 -o truth.h5 --overwrite -q
	"$tomos" project truth.h5 --views 16 -o scan.h5 --overwrite -q
	for method in mlem osem; do
		"$tomos" recon scan.h5 --method $method --size 16,16,4 -o em.h5 --overwrite -q
		"$tomos" compare truth.h5 em.h5 --max 0.2 >out || fail "$method, radius $radius: $(cat out)"
	done
done
PYTHONDONTWRITEBYTECODE=1 python3 -c "import sys
sys.path.insert(0, '$here')
import random_scans
values, shape = random_scans.npy_read('plain.npy')
random_scans.write('negative.npy', random_scans.npy_bytes([-1 - v for v in values], shape))"
rejected "mlem needs projections above 0" 2 recon negative.npy --arc 180 --axis 16.5 --method mlem -o v.h5
