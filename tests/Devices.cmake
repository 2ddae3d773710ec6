# Tests that run on the backend that TOMOS_TEST_BACKEND names, once more on an OpenCL device: PoCL makes one
# of the processor. Where there is no platform they are skipped, in the words of the sentence they meet.
set(opencl_fast test_adjoint test_kernels test_truth test_orientation test_hard_views test_filters
	test_analytic_calls test_algebraic test_algebraic_run test_counts test_verbs test_opencl)
set(opencl_long test_analytic test_analytic_angles test_analytic_region test_feldkamp test_real_scans)

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
	tomos_opencl_tests(fast ${opencl_fast})
	tomos_opencl_tests(long ${opencl_long})
endif()
