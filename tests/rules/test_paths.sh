# No file names a folder of one machine, and the script that says so finds one.
set -euo pipefail
source=$2
check=$source/scripts/check-paths
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$check" "$source"

slash=/
echo "fine: /usr/share/doc and ../home/user/file" >"$dir/a.txt"
"$check" "$dir"
echo "cd ${slash}home/someone/tomos" >"$dir/b.txt"
if said=$("$check" "$dir"); then
	echo "a path of one machine was not found"
	exit 1
fi
[[ $said == "b.txt:1: '${slash}home/someone/' is a path of one machine" ]] || { echo "$said"; exit 1; }
