# Sizes and words of the sources are as the rules say, and the script finds what breaks them.
# shellcheck source=tests/rules/check_help.sh disable=SC2154
. "$(dirname "$0")/check_help.sh"
begin_check check-style "$2"

# expect FILE MESSAGE: the only fault found is this one.
expect() {
	local said
	if said=$("$check" "$dir"); then
		echo "'$2' was not found"
		exit 1
	fi
	[ "$said" = "$1$2" ] || { echo "$said"; exit 1; }
	rm "$dir/$1"
}
echo '/* on the card */' >"$dir/a.c"
expect a.c ":1: 'card'; use GPU, device"
printf '\t/* %0100d */\n' 0 >"$dir/a.c"
expect a.c ":1: 114 columns; at most 100"
seq 501 >"$dir/a.c"
expect a.c ": 501 lines; at most 500"
{ echo 'int f(void)'; echo '{'; seq 61; echo '}'; } >"$dir/a.c"
expect a.c ":2: a function of 61 lines; at most 60"
