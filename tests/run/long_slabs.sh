#!/usr/bin/env bash
# SIRT, CGLS and PDHG of a simulated scan of 1024 columns, 256 rows and 720 views under --memory 1G on the CPU: the
# peak resident size stays below 1.1 GiB, the volume is that of a run with ample memory to 1e-6, also after the
# process was killed and the run resumed, in HDF5 files and folders of TIFF files.
# TOMOS_SLAB_ROWS: slices to reconstruct (0:256); TOMOS_SLAB_ITERATIONS (1).
set -u
tomos=$1
rows=${TOMOS_SLAB_ROWS:-0:256}
iterations=${TOMOS_SLAB_ITERATIONS:-1}
limit=1126 # MiB
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failed=0
bad() {
	echo "FAILED: $1"
	failed=$((failed + 1))
}

# peak WORDS...: runs the command, and prints its peak resident size in MiB and its status.
peak() {
	python3 - "$@" <<'END'
import os, resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, status)
END
}

# killed OUTPUT WORDS...: kills the command when a slab is in the journal of its output.
killed() {
	local output=$1 pid
	shift
	"$@" >/dev/null 2>&1 &
	pid=$!
	while kill -0 $pid 2>/dev/null; do
		if grep -q '^note iterations' ".$output.journal" 2>/dev/null; then
			kill -KILL $pid
			break
		fi
		sleep 0.2
	done
	wait $pid 2>/dev/null
	[ -e ".$output.journal" ] || bad "$output: it ended before it was killed"
}

"$tomos" project shepp-logan-modified --rows 256 --columns 1024 --views 720 -q -o scan.h5 || exit 1
for method in sirt cgls pdhg; do
	words=(recon scan.h5 --method "$method" --iterations "$iterations" --rows "$rows" --backend cpu)
	read -r whole status < <(peak "$tomos" "${words[@]}" -o whole.h5 --overwrite)
	[ "$status" = 0 ] || bad "$method: status $status with ample memory"
	for output in slabs.h5 slabs; do
		name=$output
		[ $output = slabs ] && name=slabs/
		rm -rf slabs.h5 slabs .slabs*
		killed $output "$tomos" "${words[@]}" --memory 1G -o $name
		read -r most status < <(peak "$tomos" "${words[@]}" --memory 1G --resume -o $name)
		echo "$method to $name: $most MiB at most under 1G, $whole MiB with ample memory"
		[ "$status" = 0 ] || bad "$method to $name: status $status after resume"
		[ "$most" -lt $limit ] || bad "$method to $name: $most MiB"
		"$tomos" compare whole.h5 $name --max 1e-6 || bad "$method to $name: another volume"
		[ -z "$(find . -name '.slabs*')" ] || bad "$method to $name: left: $(ls -A)"
	done
done
echo "$failed failed"
[ "$failed" = 0 ]
