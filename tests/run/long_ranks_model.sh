# The expected time of the stages of FDK, from rates measured just before, against the run: the least of alternating plans
# and of runs at three sizes, one thread. Times are processor times, which other work on the machine changes less; what it
# changes it makes longer, so that the least of several is nearest to a quiet machine.
#
#   long_ranks_model.sh COMMAND SOURCES BUILD     TOMOS_TURNS: of each size (7)   TOMOS_SIZES: voxels along a side
. "$2/tests/run/ranks_help.sh"
export TOMOS_CLOCK=thread
turns=${TOMOS_TURNS:-7}
least() { sort -g | sed -n 1p; }
# Seconds of a stage in the plan, or of a stage in the table of --timing (its amount by its rate: more digits).
planned() { sed -n "s/^time .*$1 \([0-9.e-]*\) s.*/\1/p" out; }
measured() { awk -v s="$1" '$1 == s {print $4 / $6 / 1000}' out; }
# Reading and preparation take 10 ms or more at these sizes, and arrays have large pages at all of them but for the scan
# of the first.
for size in ${TOMOS_SIZES:-256 384 512}; do
	"$tomos" project shepp-logan --geometry cone --source-axis 4 --source-detector 6 --columns $size --rows $size --views 100 \
		-q -o scan.h5 --overwrite || exit 1
	rm -f plan_* run_*
	for ((i = 0; i < turns; i++)); do
		one recon scan.h5 --threads 1 --ranks 1 --dry-run -o v.npy || bad "no plan"
		for stage in read prepare filter project write; do planned $stage >>plan_$stage; done
		paste -d+ plan_filter plan_project | awk -F+ '{print $1 + $2}' >plan_reconstruct
		one recon scan.h5 --threads 1 --timing --overwrite -o v.npy || bad "no run"
		for stage in read prepare reconstruct write; do measured $stage >>run_$stage; done
	done
	for stage in read prepare reconstruct write; do
		a=$(least <plan_$stage) b=$(least <run_$stage)
		if awk "BEGIN {exit !($a <= 1.25 * $b && $b <= 1.25 * $a)}"; then
			ok "$size^3, $stage: $a s expected, $b s measured"
		else
			bad "$size^3, $stage: $a s expected, $b s measured"
		fi
	done
done
[ "$failures" = 0 ]
