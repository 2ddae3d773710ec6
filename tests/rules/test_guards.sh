# Each header has an include guard made from its path, and the script that checks it finds another one.
# shellcheck source=tests/rules/check_help.sh disable=SC2154
. "$(dirname "$0")/check_help.sh"
begin_check check-guards "$2"

mkdir -p "$dir"/src/{run,algo}
guard() { printf '#ifndef %s\n#define %s\n#endif\n' "$2" "$2" >"$dir/$1"; }
guard src/run/run.h TOMOS_RUN_RUN_H
"$check" "$dir"
guard src/algo/run.h RUN_H
if said=$("$check" "$dir"); then
	echo "a guard without its folder was not found"
	exit 1
fi
wanted="src/algo/run.h: the include guard is RUN_H, and must be TOMOS_ALGO_RUN_H"
[ "$said" = "$wanted" ] || { echo "$said"; exit 1; }
"$check" --fix "$dir"
"$check" "$dir"
echo "int none;" >"$dir/src/algo/run.h"
if "$check" --fix "$dir" >"$dir/said"; then
	echo "a header without a guard was not found"
	exit 1
fi
