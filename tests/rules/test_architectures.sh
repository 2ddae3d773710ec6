# The CUDA backend is compiled for the GPU found, or one architecture that all have; for all only where that is asked.
# The machine around it is played by small stand-ins.
set -euo pipefail
source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin"
printf '#!/bin/sh\nprintf "compute_%%s\\n" 75 80 86 90 120\n' >"$dir/nvcc"
cat >"$dir/ask.cmake" <<-END
	include($source/cmake/CudaArchitectures.cmake)
	tomos_cuda_architectures(chosen)
	message(STATUS "chosen: \${chosen}")
END

# What nvidia-smi does, what is asked for, what must be chosen.
chosen() {
	printf '#!/bin/sh\n%s\n' "$1" >"$dir/bin/nvidia-smi"
	chmod +x "$dir/bin/nvidia-smi"
	local said
	said=$(PATH=$dir/bin:/usr/bin:/bin "$cmake" -DCMAKE_CUDA_COMPILER="$dir/nvcc" -DTOMOS_CUDA_ARCHITECTURES="$2" \
		-P "$dir/ask.cmake" 2>&1)
	grep -qxF -- "-- chosen: $3" <<<"$said" || { echo "found '$1', asked for '$2': not $3 but: $said"; exit 1; }
}

chmod +x "$dir/nvcc"
cmake=$(command -v cmake)
chosen 'exit 127' auto 75
chosen 'echo 9.0; echo 9.0' auto 90a-real
chosen 'echo 8.6; echo 12.0' auto '86-real;120-real'
chosen 'echo 6.1' auto 75  # older than the compiler knows
chosen 'echo 12.1' auto 75 # newer
chosen 'echo "driver 9.0 failed"; exit 9' auto 75
chosen 'echo 9.0' all '75-real;80-real;86-real;89-real;90a-real;100-real;120'
chosen 'echo 9.0' '80-real;90a-real' '80-real;90a-real'
