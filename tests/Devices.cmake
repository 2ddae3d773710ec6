# Tests that run on the backend that TOMOS_TEST_BACKEND names, once more on devices. PoCL makes an OpenCL
# one of the processor. Where there is no platform they are skipped, in the words of the sentence they meet.
set(device_fast test_adjoint test_kernels test_truth test_orientation test_hard_views test_filters
	test_analytic_calls test_algebraic test_algebraic_run test_counts test_verbs test_opencl)
set(device_long test_analytic test_analytic_angles test_analytic_region test_feldkamp test_real_scans)

function(tomos_opencl_tests label)
	foreach(name IN LISTS ARGN)
		add_test(NAME opencl_${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/pocl)
		set_tests_properties(opencl_${name} PROPERTIES LABELS ${label} TIMEOUT 900
			SKIP_REGULAR_EXPRESSION "there is no OpenCL platform"
			ENVIRONMENT "${environment};TOMOS_TEST_BACKEND=opencl;TOMOS_MODULES=${PROJECT_BINARY_DIR};POCL_CACHE_DIR=${PROJECT_BINARY_DIR}/pocl")
	endforeach()
endfunction()

if(TARGET tomos_opencl)
	file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/pocl)
	tomos_opencl_tests(fast ${device_fast})
	tomos_opencl_tests(long ${device_long})
endif()

# `make test-gpu` runs all of them on an NVIDIA card; elsewhere they are skipped likewise.
if(TARGET tomos_cuda)
	foreach(name IN LISTS device_fast device_long)
		add_test(NAME cuda_${name} COMMAND ${name})
		set_tests_properties(cuda_${name} PROPERTIES LABELS gpu TIMEOUT 900
			SKIP_REGULAR_EXPRESSION "there is no NVIDIA"
			ENVIRONMENT "${environment};TOMOS_TEST_BACKEND=cuda;TOMOS_MODULES=${PROJECT_BINARY_DIR}")
	endforeach()
endif()
