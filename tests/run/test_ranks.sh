# Reconstructions by several ranks: the volumes of one process, in one output.
. "$2/tests/run/ranks_help.sh"
"$tomos" project shepp-logan --columns 48 --rows 37 --views 40 --noise 0.05 -q -o stack.h5 || exit 1
"$tomos" project shepp-logan --geometry cone --source-axis 4 --source-detector 6 --columns 40 --rows 29 --views 36 \
	--noise 0.05 -q -o cone.h5 || exit 1
scan=../stack.h5
same "parallel, FBP" 3 recon $scan -q -o v.h5
same "FBP to a TIFF folder" 3 recon $scan -q -o slices/
same "FBP to npy, 16 bits" 3 recon $scan -q --type uint16 -o v.npy
same "FBP to packed HDF5" 3 recon $scan -q --compress 1 -o v.h5
same "FBP of some rows" 3 recon $scan -q --rows 5:18 -o v.h5
same "more ranks than pairs of rows" 3 recon $scan -q --rows 5:7 -o v.h5
near "parallel, SIRT" 3 1e-6 recon $scan -q --method sirt --iterations 3 -o v.npy
same "parallel, CGLS" 3 recon $scan -q --method cgls --iterations 3 --type uint16 -o v.h5
same "parallel, CGLS of one group" 3 recon $scan -q --method cgls --iterations 3 --rows 2:9 --type uint8 -o v.raw
near "cone, FDK" 3 1e-6 recon ../cone.h5 -q -o v.npy
near "parallel, FISTA with TV across slices" 3 1e-6 recon $scan -q --method fista --regulariser tv --strength 0.01 \
	--iterations 5 -o v.npy
several=(--view-groups 1)
near "cone, SIRT" 3 1e-6 recon ../cone.h5 -q --method sirt --iterations 5 -o v.npy
near "cone, CGLS" 3 1e-5 recon ../cone.h5 -q --method cgls --iterations 20 -o v.npy
near "cone, PDHG with TV" 3 1e-6 recon ../cone.h5 -q --method pdhg --strength 0.01 --iterations 5 -o v.npy
near "cone, SIRT, messages in half precision" 3 1e-4 recon ../cone.h5 -q --method sirt --iterations 5 --message half \
	-o v.npy
several=(--view-groups 3)
near "cone, FDK, view groups" 3 1e-6 recon ../cone.h5 -o v.npy
bytes=$(sed -n 's/^sent *\([0-9.e+]*\) MB.*/\1e6/p' printed) # a reduce-scatter: 2 of 3 parts of 40 x 40 x 29 floats each
awk "BEGIN {exit !(\"$bytes\" != \"\" && $bytes + 0 <= 1.05 * 2 * 40 * 40 * 29 * 4)}" && ok "$bytes bytes sent" ||
	bad "view groups sent '$bytes' bytes"
if [ -e "$build/libtomos_opencl.so" ] && "$tomos" info devices | grep -q '^opencl *opencl:'; then
	export POCL_CACHE_DIR=$build/pocl
	near "cone, FDK, view groups, on a device" 3 1e-6 recon ../cone.h5 -q --backend opencl -o v.npy
	several=(--view-groups 1)
	near "cone, SIRT, on a device" 3 1e-6 recon ../cone.h5 -q --method sirt --iterations 3 --backend opencl -o v.npy
	several=(--view-groups 3)
fi
near "cone, SIRT, view groups" 3 1e-6 recon ../cone.h5 -q --method sirt --iterations 5 -o v.npy
several=()

# Only the slices of rank 1 reach the noise before the last iteration: the output says so, whoever wrote it.
stops="recon stack.h5 --method cgls --iterations 2 --stop discrepancy --noise-level 0.107 --overwrite -o stopped.h5"
# shellcheck disable=SC2086
if one $stops --rows 0:16 && grep -q '2 iterations (all)' out && ranks "${launchers[0]}" 3 $stops &&
	grep -q '2 iterations (discrepancy)' out && [ "$("$tomos" info stopped.h5 | grep '^iterations')" = "iterations 2 (discrepancy)" ]; then
	ok "why the iterations of another rank ended"
else
	bad "why the iterations of another rank ended: $("$tomos" info stopped.h5 | grep '^iterations')"
fi

# One checkpoint, whatever the number of ranks: others find nothing left to do, and go on.
goes_on="recon cone.h5 --method cgls --checkpoint state"
# shellcheck disable=SC2086
ranks "${launchers[0]}" 3 $goes_on --iterations 4 -q -o first.npy && ranks "${launchers[-1]}" 2 $goes_on --iterations 4 --resume \
	-o second.npy && grep -q 'nothing was left' out && cmp -s first.npy second.npy && ok "a checkpoint of other ranks" ||
	bad "a checkpoint of other ranks"
# shellcheck disable=SC2086
one $goes_on --iterations 8 --resume -q -o third.npy && one recon cone.h5 --method cgls --iterations 8 -q -o whole.npy &&
	"$tomos" compare whole.npy third.npy >out && awk '/^relative L2/ {exit !($3 <= 1e-6)}' out &&
	ok "one process goes on: $(grep '^relative L2' out)" || bad "one process goes on"
# Slices that are independent have checkpoints of slabs, which are the same for any number of ranks.
slices="recon stack.h5 --method sirt --checkpoint part --overwrite"
# shellcheck disable=SC2086
if one ${slices/--checkpoint part/} --iterations 8 -o whole.npy && ranks "${launchers[0]}" 3 $slices --iterations 4 -o part.npy; then
	for count in 2 1; do
		# shellcheck disable=SC2086
		ranks "${launchers[-1]}" $count $slices --resume --iterations 4 -o part.npy && grep -q 'nothing was left' out &&
			ok "slabs of 3 ranks, found by $count" || bad "slabs of 3 ranks, not found by $count"
	done
	for count in 2 3; do
		# shellcheck disable=SC2086
		ranks "${launchers[-1]}" $count $slices --resume --iterations 8 -o part.npy && "$tomos" compare whole.npy part.npy >out &&
			awk '/^relative L2/ {exit !($3 <= 1e-6)}' out && ok "slabs of 3 ranks, continued by $count" ||
			bad "slabs of 3 ranks, continued by $count"
	done
	# shellcheck disable=SC2086
	ranks "${launchers[0]}" 3 ${slices/part/none} --resume --iterations 4 -o none.npy &&
		[ "$(cat out err | grep -c 'there is no checkpoint')" = 1 ] && ok "no checkpoint, said once" ||
		bad "no checkpoint, not said once"
	# shellcheck disable=SC2086
	rm -f part.0-* && ranks "${launchers[0]}" 3 $slices --resume --iterations 8 -o part.npy &&
		! grep -q 'there is no checkpoint' out err && ok "checkpoints of other ranks alone" ||
		bad "checkpoints of other ranks alone"
	# One process has one file for few slices, which ranks do not continue: that is said.
	alone="${slices/part/alone} --rows 3:10 --iterations 4"
	# shellcheck disable=SC2086
	one $alone -o alone.npy && ranks "${launchers[-1]}" 3 $alone --resume -o alone.npy &&
		grep -q "the checkpoint 'alone' belongs to a run that divided the slices differently" out err &&
		! grep -q 'there is no checkpoint' out err &&
		ok "a checkpoint of one process" || bad "a checkpoint of one process"
else
	bad "checkpoints of slabs"
fi
# The Fourier projector; its normal operator has no checkpoints of several ranks.
"$tomos" project shepp-logan --columns 60 --rows 12 --views 60 --pixel 0.05 --noise 0.02 -q -o wide.h5 || exit 1
fista="recon ../wide.h5 -q --method fista --regulariser tv --strength 0.01 --iterations 5 --size 38,38,12 --forward fourier"
# shellcheck disable=SC2086
near "FISTA by the normal operator" 3 1e-5 $fista --normal fourier -o v.npy
# shellcheck disable=SC2086
ranks "${launchers[0]}" 3 ${fista//..\//} --normal fourier --checkpoint state2 -o v.npy
[ $? != 0 ] && grep -q 'normal operator: checkpoints of several ranks contain projections' err && ok "no such checkpoint" ||
	bad "a checkpoint of the normal operator"
# shellcheck disable=SC2086
ranks "${launchers[-1]}" 3 ${fista//..\//} --normal auto --checkpoint state2 --every 2 -o v.npy && [ -e state2 ] &&
	one ${fista//..\//} --checkpoint state2 --resume -o v2.npy && grep -q . state2 && ok "projections are kept instead" ||
	bad "projections are not kept instead"
# Ranks that project together give the bits of one process: kernels of full circles, of other orbits, and row sums.
"$tomos" project shepp-logan --geometry cone --source-axis 4 --source-detector 6 --columns 48 --rows 40 --views 64 \
	--noise 0.05 -q -o full.h5 && "$tomos" project shepp-logan --geometry helix --pitch 1 --arc 1080 --source-axis 4 \
	--source-detector 6 --columns 32 --rows 20 --views 60 --noise 0.05 -q -o helix.h5 || exit 1
same "cone, SIRT by ranks together" 3 recon ../full.h5 -q --method sirt --iterations 3 -o v.npy
same "helix, SIRT by ranks together" 3 recon ../helix.h5 -q --method sirt --iterations 3 -o v.npy
same "FBP to OME-Zarr" 3 recon $scan -q --compress 1 --type uint16 -o v.zarr
same "other commands" 3 convert $scan -q v.npy

# As many threads as cores that the process may use, which ranks divide.
unset TOMOS_THREADS OMP_NUM_THREADS OMP_THREAD_LIMIT # which tomos or nproc follow
if command -v taskset >/dev/null; then
	core=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
	taskset -c "$core" "$tomos" info devices | grep -q '^threads *1$' && ok "threads of one core" || bad "threads of one core"
	patience=60 ranks "${launchers[0]}" 2 info devices && grep -q "^threads *$(($(nproc) > 1 ? $(nproc) / 2 : 1))\$" out &&
		ok "threads of ranks" || bad "threads of ranks"
fi

# Failures: one message, from rank 0, and the same status.
for words in "recon stack.h5 --no-such-option" "recon stack.h5 --method nothing -o x.h5" "show missing.h5" "nonsense"; do
	# shellcheck disable=SC2086
	ranks "${launchers[-1]}" 3 $words
	[ $? != 0 ] && [ "$(grep -c '^tomos' err)" = 1 ] && ok "one message: $words" || bad "not one message: $words"
done
ranks "${launchers[0]}" 3 recon missing.h5 -o v.h5
[ $? != 0 ] && [ "$(grep -c 'missing.h5' err)" = 1 ] && ok "one message" || bad "not one message"
# A value that one rank alone rejects: all end at once, with the message of that rank.
"$tomos" project ball --radius 0.1 --value -1 --geometry cone --source-axis 4 --source-detector 6 --columns 40 --rows 29 \
	--views 36 --pixel 0.07 -q -o dark.h5 && "$tomos" convert dark.h5 -q dark.npy || exit 1
for launcher in "${launchers[@]}"; do
	patience=20 ranks "$launcher" 3 recon cone.h5 --method cgls --iterations 2 --view-groups 1 --ray-weights dark.npy -o rejected.npy
	[ $? = 2 ] && grep -q 'rank 1: the weight of ray .* must not be negative' err && ok "one rank rejects ($launcher)" ||
		bad "one rank rejects, $launcher"
done
[ "$failures" = 0 ]
