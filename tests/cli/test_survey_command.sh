#!/usr/bin/env bash
# The survey of geometries on the command line: bench --survey; the warning of recon about reference kernels.
. "$(dirname "$0")/cli_help.sh"

check "list" 0 bench --survey --list
has "a geometry and its family" out "cone     cone-2.8n                source at 2.8 n"
lines=$(wc -l <out)
if [ "$lines" -ge 60 ]; then ok "$lines geometries"; else bad "only $lines geometries"; fi
if [ "$(awk '{ print $2 }' out | sort | uniq -d)" = "" ]; then ok "each once"; else bad "two of one name"; fi

check "survey" 0 bench --survey cone-2.8n cone-roll-1 fan --scale 0.05 --repeat 1 --backend cpu --json survey.json
for model in joseph voxel footprint; do
	for direction in forward back; do
		if grep -Eq "^cone-roll-1 +$model +$direction +[0-9.]+ ms +[0-9.e-]+ GU/s +[01]\.[0-9]{3} [a-z_]+$" out; then
			ok "$model $direction"
		else
			bad "no line of $model $direction"
		fi
	done
done
has "a family" out "fan-1.2n"
if [ "$(grep -c ' 1\.000 ' out)" -ge 12 ]; then ok "one is the fastest of each class"; else bad "no fastest"; fi
has "the kernel in the file" survey.json '"kernel": "'
has "the scale in the file" survey.json '"scale": 0.05'
is_json survey.json
check "reference kernels" 0 bench --survey cone-2.8n --plain --scale 0.05 --repeat 1 --backend cpu \
	--projector joseph --direction back
if grep -Eq '^cone-2.8n +joseph +back .* reference$' out; then ok "their name"; else bad "another kernel"; fi
if [ "$(grep -c GU/s out)" = 1 ]; then ok "one case"; else bad "not one case"; fi

check "files" 0 bench --survey cone --scale 0.05 --geometries views
there views/grids.txt
there views/cone-2.8n.json
if [ "$(wc -l <views/grids.txt)" = "$(find views -name '*.json' | wc -l)" ]; then
	ok "a grid for each"
else
	bad "grids are missing"
fi
has "a grid" views/grids.txt "cone-voxel-2 cone 16 16 16 2 -2 2 -15 15 -15"
check "files that exist" 1 bench --survey cone --geometries views
has "its message" err "'views/grids.txt' cannot be written: File exists"
check "files again" 0 bench --survey cone --scale 0.05 --geometries views --overwrite
check "no folder" 1 bench --survey --geometries none/views

check "unknown geometry" 2 bench --survey cone-2.8m
has "its message" err "unknown geometry 'cone-2.8m'; nearest: cone-2.8n"
check "a workload" 2 bench --survey slice-1024-voxel
check "scale without survey" 2 bench --scale 1
has "its message" err "--scale"
check "too small" 2 bench --survey --scale 0.001
has "its message" err "--scale: 0.001 is not between 0.01 and 16"
check "survey of all" 2 bench --survey --all
has "its message" err "--all has no effect with --survey"
check "survey by view" 2 bench --survey cone --by-view x.png
check "files and numbers" 2 bench --survey --geometries other --json x.json
absent other

make project shepp-logan --geometry cone --source-axis 6 --source-detector 9 --columns 24 --rows 24 --views 40 -o s.h5
slow="recon s.h5 --method sirt --backend cpu --dry-run -o v.h5"
check "a large job" 0 $slow --size 400 --forward line-march --back voxel
has "the warning" err "warning: the forward projection, 51.2 G updates, runs the reference kernel, which is slow: "
has "its reason" err "cpu has no optimised kernel of 'line-march' for point sources with an upright detector; it has "
if grep -q "back projection" err; then bad "a warning of the other direction"; else ok "one direction"; fi
check "a boundary that few kernels have" 0 $slow --size 400 --boundary clamp
has "the option as the reason" err "cpu has no optimised kernel of 'joseph' with boundary clamp for point sources with an upright detector; it has one without"
check "nearest pixels" 0 $slow --size 400 --back voxel --voxel-interpolation nearest
has "that option" err "no optimised kernel of 'voxel' with voxel_interpolation nearest for"
check "a small job" 0 $slow --size 40 --forward line-march
if grep -q "reference kernel" err; then bad "it warns"; else ok "no warning"; fi
check "reference kernels asked for" 0 $slow --size 400 --forward line-march --plain
if grep -q "reference kernel" err; then bad "it warns"; else ok "no warning"; fi
check "any rays" 0 $slow --size 400 --forward voxel
if grep -q "reference kernel" err; then bad "it warns"; else ok "no warning"; fi

export XDG_CACHE_HOME=$folder/cache
unset TOMOS_TUNE
check "tune" 0 tune --survey cone-2.8n cone-roll-1 --scale 0.03 --seconds 0.5 --backend cpu
has "a geometry" out "cone-roll-1"
has "where it is kept" out "wrote $folder/cache/tomos/tune-cpu-"
check "tune --show" 0 tune --show --backend cpu
for rays in cone tilted; do
	if grep -Eq "^voxel +back +float +$rays .* \* " out; then ok "kept of $rays"; else bad "nothing of $rays"; fi
done
check "bench after it" 0 bench --survey cone-roll-1 --scale 0.03 --repeat 1 --backend cpu
check "tune of sizes" 2 tune --survey --size 100
has "its message" err "--size has no effect with --survey"
check "tune of an unknown geometry" 2 tune --survey cone-3.n
for command in bench tune; do
	check "$command of a geometry without --survey" 2 $command cone-2.8n
	has "what is missing" err "'cone-2.8n' is a geometry of the survey; it needs --survey"
	check "$command of a family without --survey" 2 $command oblique
	has "what is missing" err "'oblique' is a family of geometries of the survey; it needs --survey"
done
check "tune of two scans" 2 tune s.h5 s.h5
has "its message" err "'s.h5' is one word too many"

clean "survey"
echo "$failures failed"
[ "$failures" = 0 ]
