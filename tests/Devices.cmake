# Tests that run on the backend that TOMOS_TEST_BACKEND names, once more on devices. PoCL makes an OpenCL
# one of the processor. Where there is no platform they are skipped, in the words of the message they meet.
set(device_fast test_adjoint test_kernels test_truth test_orientation test_hard_views test_filters
	test_analytic_calls test_algebraic test_algebraic_run test_checkpoint test_counts test_vectors
	test_opencl test_matrix_device test_composite test_art test_stack_kernels test_tune test_fans
	test_split_symmetry test_prep_device test_resident test_truncation test_fourier test_normal)
# Some of them once more on two devices, which may be the same one.
set(devices_fast test_adjoint test_kernels test_fourier)
set(devices_long test_hard_views test_truth test_orientation test_analytic)
set(device_long test_anisotropic test_analytic test_analytic_space test_analytic_steps test_analytic_angles
	test_analytic_views
	test_analytic_region test_feldkamp test_real_scans)

function(tomos_opencl_tests label prefix backend)
	foreach(name IN LISTS ARGN)
		add_test(NAME ${prefix}_${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/pocl)
		set_tests_properties(${prefix}_${name} PROPERTIES LABELS ${label} TIMEOUT 900 SKIP_RETURN_CODE 77
			SKIP_REGULAR_EXPRESSION "there is no OpenCL platform"
			ENVIRONMENT "${environment};TOMOS_TEST_BACKEND=${backend};TOMOS_MODULES=${PROJECT_BINARY_DIR};POCL_CACHE_DIR=${PROJECT_BINARY_DIR}/pocl")
	endforeach()
endfunction()

if(TARGET tomos_opencl)
	file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/pocl)
	tomos_opencl_tests(fast opencl opencl ${device_fast})
	tomos_opencl_tests(long opencl opencl ${device_long})
	tomos_opencl_tests(fast opencl_two opencl:0,0 ${devices_fast})
	tomos_opencl_tests(long opencl_two opencl:0,0 ${devices_long})
endif()

# `make test-gpu` runs all of them on an NVIDIA GPU; elsewhere they are skipped likewise.
function(tomos_cuda_tests prefix backend)
	foreach(name IN LISTS ARGN)
		add_test(NAME ${prefix}_${name} COMMAND ${name})
		set_tests_properties(${prefix}_${name} PROPERTIES LABELS gpu TIMEOUT 900 SKIP_RETURN_CODE 77
			SKIP_REGULAR_EXPRESSION "there is no NVIDIA"
			ENVIRONMENT "${environment};TOMOS_TEST_BACKEND=${backend};TOMOS_MODULES=${PROJECT_BINARY_DIR}")
	endforeach()
endfunction()

if(TARGET tomos_cuda)
	tomos_cuda_tests(cuda cuda ${device_fast} ${device_long} test_half test_quarter test_split test_borderline
		test_stack_rows test_small_volumes test_step test_random_views test_mirrors)
	tomos_cuda_tests(cuda_two cuda:0,0 ${devices_fast} ${devices_long})
endif()

# Modules once more, with every call of the device's library wrapped, so that each can be made to fail; the names
# are those of the lines WRAP(...) of faults/device_<name>.c.
function(tomos_fault_module name)
	set(source ${CMAKE_CURRENT_SOURCE_DIR}/faults/device_${name}.c)
	file(READ ${source} text)
	string(REGEX MATCHALL "\nWRAP_[A-Z]+\\([^()]*" lines "${text}")
	set(wraps)
	foreach(line IN LISTS lines)
		string(REGEX MATCH "(cl|cuda|cufft|__cuda)[A-Z][A-Za-z0-9_]*" call "${line}")
		list(APPEND wraps LINKER:--wrap=${call})
	endforeach()
	add_library(tomos_${name}_faults MODULE $<TARGET_OBJECTS:tomos_${name}> ${source}
		faults/device_calls.c)
	target_compile_definitions(tomos_${name}_faults PRIVATE _GNU_SOURCE)
	target_link_options(tomos_${name}_faults PRIVATE ${wraps})
	set_target_properties(tomos_${name}_faults PROPERTIES OUTPUT_NAME tomos_${name}
		LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/faults C_VISIBILITY_PRESET hidden)
	target_link_libraries(tomos_${name}_faults PRIVATE ${ARGN})
endfunction()

# Programs that need the wrapped modules, or count what these hold.
set(wrapped long_device_calls long_growth)

if(TARGET tomos_opencl)
	tomos_fault_module(opencl OpenCL::OpenCL m)
	tomos_opencl_tests(long opencl opencl ${wrapped})
	list(TRANSFORM wrapped PREPEND opencl_ OUTPUT_VARIABLE names)
	set_tests_properties(${names} PROPERTIES TIMEOUT 3600
		ENVIRONMENT "${environment};TOMOS_TEST_BACKEND=opencl;TOMOS_MODULES=${PROJECT_BINARY_DIR}/faults;POCL_CACHE_DIR=${PROJECT_BINARY_DIR}/pocl")
endif()

if(TARGET tomos_cuda)
	tomos_fault_module(cuda CUDA::cufft)
	set_target_properties(tomos_cuda_faults PROPERTIES CUDA_RUNTIME_LIBRARY Static LINKER_LANGUAGE CUDA)
	tomos_cuda_tests(cuda cuda ${wrapped})
	list(TRANSFORM wrapped PREPEND cuda_ OUTPUT_VARIABLE names)
	set_tests_properties(${names} PROPERTIES
		ENVIRONMENT "${environment};TOMOS_TEST_BACKEND=cuda;TOMOS_MODULES=${PROJECT_BINARY_DIR}/faults")
endif()
