#!/usr/bin/env bash
# tomos view survives a hundred thousand malformed requests.
# shellcheck source=tests/cli/cli_help.sh disable=SC2154
here=$(cd "$(dirname "$0")" && pwd)
. "$(dirname "$0")/cli_help.sh"

check "no file" 1 view nothing.h5 --no-browser
if grep -q "HTTP" err; then
	echo "skipped: $(cat err)"
	exit 77
fi
if timeout 1800 python3 "$here/view_check.py" "$tomos" "$folder" 100000 2>err; then ok "the server"; else bad "the server"; fi
exit $((failures > 0))
