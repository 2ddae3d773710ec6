# The sources of src/backend/cpu/level are compiled once per instruction set; the level is chosen
# when the program starts. TOMOS_CPU_LEVELS given from outside leaves some of them out.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
	set(levels base avx2 avx512)
	set(TOMOS_FLAGS_avx2 -mavx2 -mfma -mf16c)
	set(TOMOS_FLAGS_avx512 -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mf16c
		-mprefer-vector-width=512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
	set(levels base neon)
else()
	set(levels base)
endif()
set(TOMOS_CPU_LEVELS ${levels} CACHE STRING
	"instruction sets the kernels are compiled for; native: those that this processor has")
if(TOMOS_CPU_LEVELS STREQUAL "native")
	set(TOMOS_CPU_LEVELS ${levels})
	if(EXISTS /proc/cpuinfo)
		file(STRINGS /proc/cpuinfo features REGEX "^flags" LIMIT_COUNT 1)
		foreach(level avx2 avx512)
			if(NOT features MATCHES " ${level}")
				list(REMOVE_ITEM TOMOS_CPU_LEVELS ${level})
			endif()
		endforeach()
	endif()
endif()

function(tomos_add_cpu_levels target)
	file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cpu/level/*.c)
	foreach(level IN LISTS TOMOS_CPU_LEVELS)
		add_library(tomos_cpu_${level} OBJECT ${sources})
		target_include_directories(tomos_cpu_${level} PRIVATE
			${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
		target_compile_definitions(tomos_cpu_${level} PRIVATE TOMOS_LEVEL=${level}
			TOMOS_LEVEL_${level}=1)
		if(level STREQUAL avx512 AND avx2 IN_LIST TOMOS_CPU_LEVELS)
			target_compile_definitions(tomos_cpu_${level} PRIVATE TOMOS_NARROW=avx2)
		endif()
		target_compile_options(tomos_cpu_${level} PRIVATE
			$<$<CONFIG:Release>:-O3> -ffp-contract=fast ${TOMOS_FLAGS_${level}})
		target_link_libraries(tomos_cpu_${level} PRIVATE tomos_flags)
		target_sources(${target} PUBLIC $<TARGET_OBJECTS:tomos_cpu_${level}>)
		target_compile_definitions(${target} PRIVATE TOMOS_HAS_LEVEL_${level}=1)
	endforeach()
endfunction()
