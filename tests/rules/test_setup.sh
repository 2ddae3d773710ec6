# scripts/setup installs exactly what is missing, calls no apt where nothing is, and says clearly why
# it cannot. The machine around it is played by small stand-ins.
set -euo pipefail
setup=$2/scripts/setup
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bin=$dir/bin
mkdir "$bin"
for tool in sh sed sort head env cat true; do
	ln -s "$(command -v $tool)" "$bin/$tool"
done

stand_in() { # name, body
	rm -f "$bin/$1"
	printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"
	chmod +x "$bin/$1"
}

run() { # status expected, arguments of setup
	local wanted=$1 status=0
	shift
	: >"$dir/apt"
	PATH=$bin "$setup" "$@" </dev/null >"$dir/said" 2>&1 || status=$?
	[ $status = "$wanted" ] || { echo "status $status, not $wanted:"; cat "$dir/said"; exit 1; }
}

said() {
	grep -qF -- "$1" "$dir/said" || { echo "not said: $1"; cat "$dir/said"; exit 1; }
}

# The machine: everything is installed but what $dir/absent lists.
stand_in dpkg-query 'shift 2
for package; do grep -qx "$package" '"$dir"'/absent || echo "installed $package"; done'
ln -s "$(command -v grep)" "$bin/grep"
stand_in apt-get 'echo "$*" >>'"$dir/apt"
stand_in id 'echo 0'
stand_in cmake 'echo cmake version 3.25.1'

: >"$dir/absent"
run 0
[ ! -s "$dir/apt" ] || { echo "apt was called for nothing"; exit 1; }

printf 'libtiff-dev\nlibcmocka-dev\ncppcheck\n' >"$dir/absent"
run 0
grep -qx 'install -q -y libtiff-dev libcmocka-dev cppcheck' "$dir/apt"
run 0 --test
grep -qx 'install -q -y libtiff-dev libcmocka-dev' "$dir/apt"
run 0 --build-only
grep -qx 'install -q -y libtiff-dev' "$dir/apt"

# A program that came some other way counts.
stand_in cppcheck true
echo cppcheck >"$dir/absent"
run 0
[ ! -s "$dir/apt" ]

# What only some tests need is taken where there is a package, and does without one.
echo python3-torch >"$dir/absent"
stand_in apt-cache 'exit 0'
run 0
grep -qx 'install -q -y --no-install-recommends python3-torch' "$dir/apt"
run 0 --test
[ ! -s "$dir/apt" ]
stand_in apt-cache 'exit 100'
run 0
said 'there is no package python3-torch here; the tests that need it will be skipped'
[ "$(grep -c install "$dir/apt")" = 0 ]
stand_in id 'echo 1000'
run 0
said 'without python3-torch, which some tests need'
stand_in id 'echo 0'

echo libpng-dev >"$dir/absent"
stand_in id 'echo 1000'
run 1
said 'libpng-dev'
said 'you are not root and there is no sudo'
stand_in sudo 'exit 1'
run 1
said 'sudo needs a password, and there is no terminal to type it; run: sudo apt-get install libpng-dev'
stand_in sudo '[ "$1" != -n ] || shift; "$@"'
run 0
grep -qx 'install -q -y libpng-dev' "$dir/apt"
rm "$bin/apt-get"
run 1
said 'this is neither Debian nor Ubuntu'

: >"$dir/absent"
stand_in cmake 'echo cmake version 3.22.1'
run 1
said 'cmake is 3.22.1, tomos needs 3.25'
run 2 --fast
said "'--fast' is not known"
