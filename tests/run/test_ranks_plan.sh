# The plan of a run over ranks against the run: bytes that the ranks sent, and slices of the first one.
. "$2/tests/run/ranks_help.sh"
"$tomos" project shepp-logan --geometry cone --source-axis 4 --source-detector 6 --pixel 0.07 --columns 44 --rows 37 \
	--views 31 -q -o scan.h5 || exit 1
# agree WHAT COUNT LIMIT WORDS...: bytes sent differ from the plan's by LIMIT of them at most.
agree() {
	local what=$1 count=$2 limit=$3 sent planned
	shift 3
	rm -f rates.txt volume.h5
	ranks "${launchers[0]}" "$count" recon scan.h5 --threads 1 -o volume.h5 "$@" || bad "$what: $count ranks"
	sent=$(sed -n 's/^sent *\([^ ]*\) MB between .*/\1/p' out)
	one recon scan.h5 --threads 1 --ranks "$count" --dry-run --rates rates.txt -o other.h5 "$@" || bad "$what: no plan"
	# All ranks are on one machine, whose memory they share.
	sed -i "s/^node_ranks .*/node_ranks $count/" rates.txt
	one recon scan.h5 --threads 1 --ranks "$count" --dry-run --rates rates.txt -o other.h5 "$@" || bad "$what: no plan"
	planned=$(sed -n 's/^bytes .* sent \([^ ]*\) GB.*/\1/p' out)
	if awk "BEGIN {p = 1000 * $planned; d = p - ${sent:-NaN}; exit !(d * d <= ($limit * p) ^ 2)}"; then
		ok "$what, $count ranks: sent $sent MB, planned $planned GB"
	else
		bad "$what, $count ranks: sent $sent MB, planned $planned GB"
	fi
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
[ "$failures" = 0 ]
