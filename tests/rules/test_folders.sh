# The folder rule holds, and the script that says so finds what breaks it.
# shellcheck source=tests/rules/check_help.sh disable=SC2154
. "$(dirname "$0")/check_help.sh"
begin_check check-folders "$2"

# file, the line it contains, what the script must say ("" for nothing)
expect() {
	rm -rf "${dir:?}"/*
	mkdir -p "$dir"/{include/tomos,cli,src/{base,geom,kernel,backend/{cpu,cuda,device,split},io,op,algo,truth}}
	touch "$dir"/include/tomos.h "$dir"/src/{base/base,geom/geom,kernel/line,io/io,algo/fbp}.h \
		"$dir"/src/backend/{backend,cpu/cpu,cuda/cuda,device/hat,split/split}.h \
		"$dir"/src/kernel/kernels.def "$dir"/cli/cli.h
	mkdir -p "$dir/$(dirname "$1")"
	printf '%s\n' "$2" >"$dir/$1"
	local said status=0
	said=$("$check" "$dir") || status=$?
	if [ -z "$3" ]; then
		[ $status = 0 ] && [ -z "$said" ] || { echo "wrongly rejected: $said"; exit 1; }
	elif [ $status != 1 ] || [[ $said != *"$3"* ]]; then
		echo "'$2' in $1 gave status $status and '$said', not '$3'"
		exit 1
	fi
}

expect src/geom/grid.c '#include "base/base.h"' ''
expect src/geom/grid.c '#include <math.h>' ''
expect src/backend/cpu/cpu.c '#include "kernel/line.h"' ''
expect src/base/options.c '#include "kernel/kernels.def"' ''
expect cli/main.c '#include "tomos.h"' ''
expect cli/main.c '#include "cli.h"' ''
expect src/base/status.c '#include "geom/geom.h"' \
	'src/base/status.c:1: src/base may not include src/geom/geom.h'
expect src/geom/grid.c '#  include "../io/io.h"' 'src/geom may not include src/io/io.h'
expect src/kernel/joseph.h '#include "tomos.h"' 'src/kernel may not include include/tomos.h'
expect src/truth/noise.c '#include "algo/fbp.h"' 'src/truth may not include src/algo/fbp.h'
expect src/backend/cpu/cpu.c '#include "algo/fbp.h"' 'may not include src/algo/fbp.h'
expect cli/main.c '#include "base/base.h"' 'cli may not include src/base/base.h'
expect src/io/tiff.c '#include "tiffio.h"' 'is not in this repository'
expect src/misc/misc.c '' 'src/misc: a folder without a rule'
# The layers of src/backend: devices include the interface and their common helpers, but not each other.
expect src/backend/cpu/cpu.c '#include "backend/backend.h"' ''
expect src/backend/cuda/kernels/hat.cu '#include "backend/device/hat.h"' ''
expect src/backend/backend.c '#include "backend/split/split.h"' ''
expect src/backend/plan.c '#include "backend/split/split.h"' \
	'src/backend may not include src/backend/split/split.h'
expect src/backend/tune.c '#include "backend/cpu/cpu.h"' 'src/backend may not include src/backend/cpu/cpu.h'
expect src/backend/cpu/level/column.c '#include "backend/cuda/cuda.h"' \
	'src/backend/cpu may not include src/backend/cuda/cuda.h'
expect src/backend/cpu/cpu.c '#include "backend/device/hat.h"' \
	'src/backend/cpu may not include src/backend/device/hat.h'
expect src/backend/device/hat.c '#include "backend/cuda/cuda.h"' \
	'src/backend/device may not include src/backend/cuda/cuda.h'
expect src/backend/split/split.c '#include "backend/cpu/cpu.h"' \
	'src/backend/split may not include src/backend/cpu/cpu.h'
expect src/op/op.c '#include "backend/cpu/cpu.h"' 'src/op may not include src/backend/cpu/cpu.h'
expect src/backend/metal/metal.c '' 'src/backend/metal: a folder without a rule'
expect src/algo/sirt.c '	return op->domain.backend->type->memory->sync(b);' 'algorithms call operators and vectors'
expect src/algo/sirt.c '#include "backend/backend.h"' 'src/algo may not include src/backend/backend.h'
