# Every function in the walks of doc/architecture.md is defined in the file named beside it.
set -euo pipefail
source=$2
missing=0
count=0
while IFS='|' read -r _ name file _; do
	name=${name//[\` ]/}
	file=${file//[\` ]/}
	count=$((count + 1))
	if ! grep -qE "(^|[ *])(def )?$name\(|tomos_##function\(" "$source/$file"; then
		echo "doc/architecture.md: $file has no function $name"
		missing=1
	fi
done < <(grep -E '^\| `[a-z_]+` \| `[a-z/_.]+` \|' "$source/doc/architecture.md")
[ "$count" -ge 25 ] || { echo "only $count functions are named"; exit 1; }
# Names elsewhere in the text.
for name in $(grep -oE '`[a-z][a-z0-9_]*_[a-z0-9_]+`' "$source/doc/architecture.md" | tr -d '\`' | sort -u); do
	grep -rqw "$name" "$source/src" "$source/include" "$source/python" "$source/cli" "$source/tests" || {
		echo "doc/architecture.md: nothing is called $name"
		missing=1
	}
done
exit $missing
