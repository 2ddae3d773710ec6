# Which GPUs the CUDA backend is compiled for.
set(TOMOS_CUDA_ARCHITECTURES auto CACHE STRING
	"GPUs the CUDA backend is compiled for: auto, all, or a list such as 80-real;90a-real")

# The GPUs of this machine that the compiler knows, each once.
function(tomos_gpus_found result)
	execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
		OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE status)
	execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
	string(REGEX MATCHALL "[0-9]+\\.[0-9]" found "${found}")
	list(TRANSFORM found REPLACE "\\." "")
	set(chosen)
	foreach(gpu IN LISTS found)
		if(status EQUAL 0 AND known MATCHES "compute_${gpu}\n")
			list(APPEND chosen ${gpu}-real)
		endif()
	endforeach()
	list(REMOVE_DUPLICATES chosen)
	list(TRANSFORM chosen REPLACE "^90-" "90a-") # only sm_90a has wgmma
	set(${result} ${chosen} PARENT_SCOPE)
endfunction()

# Each architecture takes minutes to compile, so by default there is one: that of the GPU found here, or,
# where there is none, the oldest, whose PTX code newer GPUs compile when they load it. `all` is for builds
# that go to other machines; the last of its list has PTX code as well, for GPUs newer than that.
function(tomos_cuda_architectures result)
	set(chosen ${TOMOS_CUDA_ARCHITECTURES})
	if(chosen STREQUAL "all")
		set(chosen 75-real 80-real 86-real 89-real 90a-real 100-real 120)
	elseif(chosen STREQUAL "auto")
		tomos_gpus_found(chosen)
		if(NOT chosen)
			set(chosen 75)
		endif()
	endif()
	message(STATUS "the CUDA backend is compiled for ${chosen}")
	set(${result} ${chosen} PARENT_SCOPE)
endfunction()
