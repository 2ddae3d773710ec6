#!/usr/bin/env bash
# A disk that fills up in the middle of a run: a small file system of the test's own, in every format. The
# run ends with a message, nothing is under the final name, and with more room --resume gives the same
# bytes.
#
#   test_full_disk.sh COMMAND
set -u
if [ "${2:-}" != inside ]; then
	if ! unshare -rm true 2>/dev/null; then
		echo "skipped: this user may not mount a file system of his own (unshare -rm)"
		exit 77
	fi
	scratch=$(mktemp -d)
	unshare -rm bash "$0" "$(readlink -f "$1")" inside "$scratch"
	code=$?
	rm -rf "$scratch"
	exit $code
fi
tomos=$1
cd "$3" && mkdir disk || exit 1
if ! mount -t tmpfs -o size=1M tmpfs disk 2>/dev/null; then
	echo "skipped: a tmpfs cannot be mounted here"
	exit 77
fi
"$tomos" project shepp-logan-2d-modified --columns 64 --rows 64 --views 60 --noise 0.05 -q -o scan.h5 || exit 1
failed=0
bad() {
	echo "$out: $1"
	[ -e err ] && cat err
	failed=$((failed + 1))
}
for out in volume.h5 volume.npy volume.tif volume.mha volume.mhd slices/ packed.h5; do
	rm -rf whole
	mkdir whole
	mount -o remount,size=16M disk || exit 1
	options=$([ "$out" = packed.h5 ] && echo --compress 4)
	# What is in the file besides the numbers says where it lies, so the whole is made there, too.
	"$tomos" recon scan.h5 -q $options -o "disk/$out" || bad "fails with room enough"
	mv disk/* whole/
	rm -rf disk/.[!.]*
	# The journal and the numbers have room, what goes with them has not.
	mount -o remount,size=1028K disk || exit 1
	"$tomos" recon scan.h5 -q $options -o "disk/$out" 2>err
	[ $? = 1 ] || bad "a full disk is not a failure"
	grep -q "No space left on device" err || bad "the message does not say why"
	grep -qF "disk/$out" err || bad "the message does not name the output"
	grep -q "what was done is kept, and --resume goes on from there" err || bad "what is kept is not said"
	# The numbers of a .mhd may be whole, and so under their name, before its text is.
	[ -e "disk/$out" ] && bad "there is something under the final name"
	mount -o remount,size=16M disk || exit 1
	"$tomos" recon scan.h5 -q $options -o "disk/$out" --resume 2>err || bad "cannot be resumed"
	diff -r whole disk >/dev/null || bad "other bytes after --resume"
	rm -rf disk/* disk/.[!.]*
done
# Far too little room is seen before the work.
mount -o remount,size=512K disk || exit 1
"$tomos" recon scan.h5 -q -o disk/volume.npy 2>err
[ $? = 1 ] && grep -q "would take 1.05 MB, and its disk has 0.5" err || { out=early; bad "not seen before the work"; }
[ -z "$(ls -A disk)" ] || { out=early; bad "left something: $(ls -A disk)"; }
echo "$failed failed"
[ "$failed" = 0 ]
