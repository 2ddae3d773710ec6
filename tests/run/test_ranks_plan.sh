# The plan of a run over ranks against the run: bytes that the ranks sent or read in shared memory, slices of a rank,
# and slabs.
. "$2/tests/run/ranks_help.sh"
"$tomos" project shepp-logan --geometry cone --source-axis 4 --source-detector 6 --pixel 0.07 --columns 44 --rows 37 \
	--views 31 -q -o scan.h5 || exit 1
# close WHAT GOT MB, PLANNED GB, LIMIT
close() {
	if [ -n "$2" ] && awk "BEGIN {p = 1000 * ${3:-0}; d = p - $2; exit !(d * d <= ($4 * p) ^ 2)}"; then
		ok "$1 $2 MB, planned ${3:-0} GB"
	else
		bad "$1 $2 MB, planned ${3:-0} GB"
	fi
}
# agree WHAT COUNT LIMIT WORDS...: bytes differ from the plan's by LIMIT of them at most.
agree() {
	local what=$1 count=$2 limit=$3 sent shared
	shift 3
	rm -f rates.txt volume.h5
	ranks "${launchers[0]}" "$count" recon scan.h5 --threads 1 -o volume.h5 "$@" || bad "$what: $count ranks"
	sent=$(sed -n 's/^sent *\([^ ]*\) MB between .*/\1/p' out)
	shared=$(sed -n 's/^sent .* read from shared memory: \([^ ]*\) MB$/\1/p' out)
	one recon scan.h5 --threads 1 --ranks "$count" --dry-run --rates rates.txt -o other.h5 "$@" || bad "$what: no plan"
	# All ranks are on one machine, whose memory they share.
	sed -i "s/^node_ranks .*/node_ranks $count/" rates.txt
	one recon scan.h5 --threads 1 --ranks "$count" --dry-run --rates rates.txt -o other.h5 "$@" || bad "$what: no plan"
	close "$what, $count ranks: sent" "$sent" "$(sed -n 's/^bytes .* sent \([^ ]*\) GB.*/\1/p' out)" "$limit"
	close "$what, $count ranks: in shared memory" "$shared" \
		"$(sed -n 's/^ *\([^ ]*\) GB read from the memory .*/\1/p' out)" "$limit"
}
agree "FDK" 3 0
agree "FDK, view groups" 4 0.001 --view-groups 2
agree "SIRT, view groups" 4 0.001 --view-groups 2 --method sirt --iterations 4
agree "SIRT" 3 0.001 --method sirt --iterations 4
agree "SIRT, slabs alone" 3 0.001 --method sirt --iterations 4 --view-groups 1
agree "CGLS" 4 0.001 --method cgls --iterations 3
agree "FISTA with total variation" 3 0.1 --method fista --iterations 3 --strength 0.01
agree "FISTA with total variation, slabs alone" 3 0.1 --method fista --iterations 3 --strength 0.01 --view-groups 1
agree "PDHG with total variation" 3 0.15 --method pdhg --iterations 12 --strength 0.01
# Slices that are iterated on their own: with checkpoints ranks have whole groups of 16, in the plan as in the run.
"$tomos" project shepp-logan --columns 24 --rows 90 --views 12 -q -o stack.h5 || exit 1
for words in "--iterations 2" "--iterations 2 --checkpoint state"; do
	# shellcheck disable=SC2086
	ranks "${launchers[0]}" 3 recon stack.h5 --method sirt --threads 1 --overwrite -o s.h5 $words || bad "no run"
	run=$(sed -n 's/^ranks .* this one with \([0-9]*\) slices.*/\1/p' out)
	# shellcheck disable=SC2086
	one recon stack.h5 --method sirt --threads 1 --ranks 3 --dry-run -o t.h5 $words || bad "no plan"
	plan=$(sed -n 's/^ranks .* slabs* of up to \([0-9]*\) slices.*/\1/p' out)
	[ -n "$run" ] && [ "$plan" = "$run" ] && ok "$run slices of a rank, $words" ||
		bad "$words: $run slices of a rank, planned $plan"
done
[ "$failures" = 0 ]
