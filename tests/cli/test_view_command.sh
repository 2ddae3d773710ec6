#!/usr/bin/env bash
# tomos view: what its server answers and what it rejects.
# shellcheck source=tests/cli/cli_help.sh disable=SC2154
here=$(cd "$(dirname "$0")" && pwd)
. "$(dirname "$0")/cli_help.sh"

check "a port that is none" 2 view v.npy --port 70000
has "the limits" err "--port: 70000 is not between 0 and 65535"
check "no file" 1 view nothing.h5 --no-browser
if grep -q "HTTP" err; then
	echo "skipped: $(cat err)"
	exit 77
fi
has "its name" err "nothing.h5"
if timeout 800 python3 "$here/view_check.py" "$tomos" "$folder" 2>err; then ok "the server"; else bad "the server"; fi
exit $((failures > 0))
