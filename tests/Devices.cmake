# Tests that run on the backend that TOMOS_TEST_BACKEND names, once more on devices. PoCL makes an OpenCL
# one of the processor. Where there is no platform they are skipped, in the words of the sentence they meet.
set(device_fast test_adjoint test_kernels test_truth test_orientation test_hard_views test_filters
	test_analytic_calls test_algebraic test_algebraic_run test_counts test_verbs test_opencl
	test_matrix_device test_composite test_art test_stack_kernels test_tune test_fans test_turns)
# Some of them once more on two devices, which may be the same one.
set(devices_fast test_adjoint test_kernels test_hard_views)
set(devices_long test_truth test_orientation test_analytic)
set(device_long test_anisotropic test_analytic test_analytic_space test_analytic_steps test_analytic_angles
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

# `make test-gpu` runs all of them on an NVIDIA card; elsewhere they are skipped likewise.
function(tomos_cuda_tests prefix backend)
	foreach(name IN LISTS ARGN)
		add_test(NAME ${prefix}_${name} COMMAND ${name})
		set_tests_properties(${prefix}_${name} PROPERTIES LABELS gpu TIMEOUT 900 SKIP_RETURN_CODE 77
			SKIP_REGULAR_EXPRESSION "there is no NVIDIA"
			ENVIRONMENT "${environment};TOMOS_TEST_BACKEND=${backend};TOMOS_MODULES=${PROJECT_BINARY_DIR}")
	endforeach()
endfunction()

if(TARGET tomos_cuda)
	tomos_cuda_tests(cuda cuda ${device_fast} ${device_long} test_half test_quarter test_split
		test_step)
	tomos_cuda_tests(cuda_two cuda:0,0 ${devices_fast} ${devices_long})
endif()
