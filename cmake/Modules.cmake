# Backends of GPUs: libraries of their own beside libtomos, opened when they are asked for.
option(TOMOS_CUDA "build the CUDA backend, where there is a compiler for it" ON)
include(CudaArchitectures)
option(TOMOS_CUDA_FAST_COMPILE "compile CUDA sources quickly into slow kernels, to check that they compile" OFF)

option(TOMOS_OPENCL "build the OpenCL backend, where there are headers and a loader for it" ON)

function(tomos_add_module name)
	file(GLOB common CONFIGURE_DEPENDS src/backend/device/*.c)
	add_library(tomos_${name} MODULE ${ARGN} ${common} src/backend/filter.c src/backend/prepare.c
		src/backend/fourier.c src/backend/fourier_window.c src/base/fft.c src/base/solve.c)
	target_include_directories(tomos_${name} PRIVATE include src)
	target_compile_definitions(tomos_${name} PRIVATE _GNU_SOURCE)
	set_target_properties(tomos_${name} PROPERTIES C_VISIBILITY_PRESET hidden
		CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
	install(TARGETS tomos_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# MPI: one module for each implementation that is installed.
option(TOMOS_MPI "build the MPI modules, where there is an MPI" ON)

function(tomos_add_mpi name)
	add_library(tomos_${name} MODULE src/comm/mpi/mpi.c)
	target_include_directories(tomos_${name} PRIVATE include src)
	target_compile_definitions(tomos_${name} PRIVATE _GNU_SOURCE)
	target_link_libraries(tomos_${name} PRIVATE tomos_flags ${ARGN})
	set_target_properties(tomos_${name} PROPERTIES C_VISIBILITY_PRESET hidden)
	install(TARGETS tomos_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

if(TOMOS_MPI)
	pkg_check_modules(OPENMPI QUIET IMPORTED_TARGET ompi-c)
	pkg_check_modules(MPICH QUIET IMPORTED_TARGET mpich)
	foreach(name openmpi mpich)
		string(TOUPPER ${name} package)
		if(${package}_FOUND)
			tomos_add_mpi(${name} PkgConfig::${package})
		endif()
	endforeach()
	if(NOT OPENMPI_FOUND AND NOT MPICH_FOUND)
		find_package(MPI QUIET COMPONENTS C)
		if(MPI_C_FOUND AND MPI_C_LIBRARY_VERSION_STRING MATCHES "Open MPI")
			tomos_add_mpi(openmpi MPI::MPI_C)
		elseif(MPI_C_FOUND)
			tomos_add_mpi(mpich MPI::MPI_C)
		else()
			message(STATUS "there is no MPI, so no runs over several processes")
		endif()
	endif()
endif()

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
		if(TOMOS_CUDA_FAST_COMPILE)
			include(CheckCompilerFlag)
			check_compiler_flag(CUDA -Ofc=max TOMOS_NVCC_HAS_OFC)
			target_compile_options(tomos_cuda PRIVATE
				$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TOMOS_NVCC_HAS_OFC}>>:-Ofc=max>)
		endif()
		target_link_libraries(tomos_cuda PRIVATE CUDA::cufft)
		# What is missing shows here, not on the first machine with a GPU.
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
			src/backend/opencl/*.cl src/backend/opencl/*.def src/backend/opencl/*.h src/kernel/*)
		tomos_add_module(opencl ${OPENCL_SOURCES})
		target_link_libraries(tomos_opencl PRIVATE tomos_flags OpenCL::OpenCL m)
		foreach(name vector project matrix filter slices prep rings waves fourier)
			tomos_embed(${name})
		endforeach()
	else()
		message(STATUS "there are no OpenCL headers with a loader, so no OpenCL backend")
	endif()
endif()
