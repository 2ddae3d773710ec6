#!/usr/bin/env bash
# tomos recon --ranks N --dry-run, and the job script that --sbatch writes.
# shellcheck source=tests/cli/cli_help.sh disable=SC2154
. "$(dirname "$0")/cli_help.sh"

"$tomos" project shepp-logan --columns 32 --rows 24 --views 30 --geometry cone --source-axis 4 --source-detector 6 \
	--pixel 0.1 -q -o scan.h5 || exit 1
out="it's a \$volume.h5"

check "a plan with a script" 0 recon scan.h5 --ranks 5 --dry-run --rates=node.txt --sbatch job.sh --threads 2 \
	--filter hann -o "$out"
has "the slabs" out "ranks     5: 5 slabs of up to 5 slices, 1 view group of up to 30 views"
has "the memory" out "MiB for a rank"
has "the bytes" out "sent 0 GB"
has "the table" out "longest stage"
has "the end of scaling" out "scales    up to"
has "the lines to edit" out "wrote job.sh; its lines 5, 10, 11, 12, 14, 15 and 16, marked EDIT"
there node.txt
absent "$out"
for line in 5 10 11 12 14 15 16; do
	if sed -n "${line}p" job.sh | grep -q "# EDIT: "; then ok "line $line"; else bad "line $line of job.sh"; fi
done
has "the ranks" job.sh "#SBATCH --ntasks=5"
has "the threads" job.sh "#SBATCH --cpus-per-task=2"

# The script with another srun: the words are those of the command, without the plan's.
mkdir bin
# shellcheck disable=SC2016
printf '#!/bin/sh\nshift\nprintf "%%s\\n" "$@" >words\n' >bin/srun
chmod +x bin/srun
if (cd / && PATH="$folder/bin:$PATH" bash "$folder/job.sh"); then ok "the script runs"; else bad "the script fails"; fi
printf '%s\n' recon scan.h5 --threads 2 --filter hann -o "$out" >wanted
if cmp -s words wanted; then ok "its words"; else cp words err && bad "its words"; fi

# As it is typed in the provenance of a file, the command can be pasted into a shell.
check "a name with a quote" 0 recon scan.h5 -q -o "$out"
if grep -aqF -- "-o 'it'\\''s a \$volume.h5'" "$out"; then ok "its command"; else bad "its command"; fi

check "a script that exists" 1 recon scan.h5 --ranks 5 --dry-run --sbatch job.sh -o v.h5
has "that it exists" err "job.sh"
check "--ranks alone" 2 recon scan.h5 --ranks 5 -o v.h5
has "what it needs" err "--dry-run"
check "--rates alone" 2 recon scan.h5 --rates node.txt --dry-run -o v.h5
check "--sbatch alone" 2 recon scan.h5 --sbatch other.sh --dry-run -o v.h5
has "what it needs" err "--ranks"
check "too many ranks" 2 recon scan.h5 --ranks 65537 --dry-run -o v.h5
check "no rates" 1 recon scan.h5 --ranks 2 --dry-run --rates job.sh -o v.h5
has "which line" err "'job.sh', line 15: there is no rate 'export'"
# What a run would reject, the plan does; FDK has ranks without slices, and says so.
check "more ranks than pairs of slices" 2 recon scan.h5 --ranks 13 --dry-run --method sirt -o v.h5
has "why" err "13 ranks are too many for 24 slices: sirt needs two or more on each"
check "as many as there are pairs" 0 recon scan.h5 --ranks 12 --dry-run --method sirt -o v.h5
if grep -qE "^ *16 " out || ! grep -qE "^ *8 " out; then bad "rows of the table"; else ok "rows of the table, as many as can be run"; fi
check "more ranks than slices" 0 recon scan.h5 --ranks 64 --dry-run --view-groups 1 -o v.h5
has "ranks without slices" err "40 of the 64 ranks have nothing to do"
absent v.h5
absent other.sh
exit $((failures > 0))
