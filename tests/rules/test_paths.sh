# No file names a folder of one machine, and the script that says so finds one.
# shellcheck source=tests/rules/check_help.sh disable=SC2154
. "$(dirname "$0")/check_help.sh"
begin_check check-paths "$2"

slash=/
echo "fine: /usr/share/doc and ../home/user/file" >"$dir/a.txt"
"$check" "$dir"
echo "cd ${slash}home/someone/tomos" >"$dir/b.txt"
if said=$("$check" "$dir"); then
	echo "a path of one machine was not found"
	exit 1
fi
[[ $said == "b.txt:1: '${slash}home/someone/' is a path of one machine" ]] || { echo "$said"; exit 1; }
