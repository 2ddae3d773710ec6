# Backends of graphics cards: libraries of their own beside libtomos, opened when they are asked for.
option(TOMOS_CUDA "build the CUDA backend, where there is a compiler for it" ON)
set(TOMOS_CUDA_ARCHITECTURES auto CACHE STRING
	"GPUs the CUDA backend is compiled for: auto, all, or a list such as 80-real;90a-real")

option(TOMOS_OPENCL "build the OpenCL backend, where there are headers and a loader for it" ON)

function(tomos_add_module name)
	file(GLOB shared CONFIGURE_DEPENDS src/backend/module/*.c)
	add_library(tomos_${name} MODULE ${ARGN} ${shared} src/base/fft.c src/backend/turns.c)
	target_include_directories(tomos_${name} PRIVATE include src)
	target_compile_definitions(tomos_${name} PRIVATE _GNU_SOURCE)
	set_target_properties(tomos_${name} PROPERTIES C_VISIBILITY_PRESET hidden
		CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
	install(TARGETS tomos_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

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

# Languages are enabled at the top, not inside a function.
if(TOMOS_CUDA)
	include(CheckLanguage)
	check_language(CUDA)
	find_package(CUDAToolkit QUIET)
	if(CMAKE_CUDA_COMPILER AND TARGET CUDA::cufft)
		tomos_cuda_architectures(CMAKE_CUDA_ARCHITECTURES)
		enable_language(CUDA)
		file(GLOB CUDA_SOURCES CONFIGURE_DEPENDS src/backend/cuda/*.cu src/backend/cuda/kernels/*.cu
			src/backend/cuda/literature/*.cu)
		tomos_add_module(cuda ${CUDA_SOURCES})
		set_target_properties(tomos_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static)
		target_compile_options(tomos_cuda PRIVATE
			$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --compiler-options=-Wall,-Wextra,-Wno-missing-field-initializers>)
		target_link_libraries(tomos_cuda PRIVATE CUDA::cufft)
		# What is missing shows here, not on the first machine with a card.
		target_link_options(tomos_cuda PRIVATE LINKER:-z,defs)
	else()
		message(STATUS "there is no CUDA compiler with cuFFT, so no CUDA backend")
	endif()
endif()

# A program for OpenCL devices, with all that it includes, as the C array text_NAME.
function(tomos_embed name)
	set(made ${PROJECT_BINARY_DIR}/text_${name}.c)
	add_custom_command(OUTPUT ${made} VERBATIM
		COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR}/src -DNAME=text_${name}
			-DINPUT=backend/opencl/${name}.cl -DOUTPUT=${made}
			-P ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
		DEPENDS ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake ${OPENCL_TEXTS})
	target_sources(tomos_opencl PRIVATE ${made})
endfunction()

if(TOMOS_OPENCL)
	find_package(OpenCL 1.2 QUIET)
	if(OpenCL_FOUND)
		file(GLOB OPENCL_SOURCES CONFIGURE_DEPENDS src/backend/opencl/*.c)
		file(GLOB OPENCL_TEXTS CONFIGURE_DEPENDS
			src/backend/opencl/*.cl src/backend/opencl/*.def src/kernel/*)
		tomos_add_module(opencl ${OPENCL_SOURCES})
		target_link_libraries(tomos_opencl PRIVATE tomos_flags OpenCL::OpenCL m)
		foreach(name vector project matrix filter slices)
			tomos_embed(${name})
		endforeach()
	else()
		message(STATUS "there are no OpenCL headers with a loader, so no OpenCL backend")
	endif()
endif()
