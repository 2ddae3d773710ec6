# begin_check SCRIPT SOURCE: the rule holds in the sources, and $check can be tried in the empty folder $dir.
set -euo pipefail
begin_check() {
	source=$2
	check=$source/scripts/$1
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	"$check" "$source"
}
