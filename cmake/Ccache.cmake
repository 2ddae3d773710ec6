# ccache, where it is installed, compiles once what several build trees have in common: the release build and
# the library of the Python package differ in nothing but the tests.
option(TOMOS_CCACHE "compile through ccache, where it is installed" ON)
find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
foreach(language C CUDA)
	if(TOMOS_CCACHE AND CCACHE_PROGRAM AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
		set(CMAKE_${language}_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
	endif()
endforeach()
