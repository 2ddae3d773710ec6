# doc/kernels.md shows the table of kernels that the command prints.
set -euo pipefail
tomos=$1
source=$2
shown=$(sed -n '/^```$/,/^```$/p' "$source/doc/kernels.md" | sed '1d;$d')
printed=$("$tomos" info kernels)
if [ "$shown" != "$printed" ]; then
	diff <(echo "$shown") <(echo "$printed") || true
	echo "doc/kernels.md is not what 'tomos info kernels' prints: paste it there"
	exit 1
fi
