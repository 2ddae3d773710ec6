# The libraries tomos stands on, behind one target.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBS REQUIRED IMPORTED_TARGET libtiff-4 libpng zlib jansson)
pkg_check_modules(INIH REQUIRED IMPORTED_TARGET inih)
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 REQUIRED COMPONENTS C)

add_library(tomos_dependencies INTERFACE)
target_include_directories(tomos_dependencies SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(tomos_dependencies INTERFACE
	PkgConfig::LIBS ${HDF5_C_LIBRARIES} Threads::Threads m ${CMAKE_DL_LIBS})

# What unpacks compressed chunks of HDF5 files; without it the HDF5 library and its plug-ins do.
foreach(package libdeflate liblz4 libzstd blosc)
	string(TOUPPER ${package} name)
	string(REGEX REPLACE "^LIB(LZ4|ZSTD)$" "\\1" name ${name})
	pkg_check_modules(${name} QUIET IMPORTED_TARGET ${package})
	if(${name}_FOUND)
		target_link_libraries(tomos_dependencies INTERFACE PkgConfig::${name})
	endif()
	target_compile_definitions(tomos_dependencies INTERFACE TOMOS_HAS_${name}=$<BOOL:${${name}_FOUND}>)
endforeach()

# XML files of scanners and of RTK; without it they are rejected with a message.
pkg_check_modules(EXPAT QUIET IMPORTED_TARGET expat)
if(EXPAT_FOUND)
	target_link_libraries(tomos_dependencies INTERFACE PkgConfig::EXPAT)
endif()
set_source_files_properties(src/base/xml.c PROPERTIES COMPILE_DEFINITIONS TOMOS_HAS_EXPAT=$<BOOL:${EXPAT_FOUND}>)

# FFTW's licence is the GPL, which a library with it must have too; so it is there only where it is asked for.
set(TOMOS_FFT own CACHE STRING "Fourier transforms on the CPU: own or fftw")
set_property(CACHE TOMOS_FFT PROPERTY STRINGS own fftw)
if(TOMOS_FFT STREQUAL "fftw")
	pkg_check_modules(FFTW REQUIRED IMPORTED_TARGET fftw3f)
	target_link_libraries(tomos_dependencies INTERFACE PkgConfig::FFTW)
	target_compile_definitions(tomos_dependencies INTERFACE TOMOS_FFTW=1)
elseif(NOT TOMOS_FFT STREQUAL "own")
	message(FATAL_ERROR "TOMOS_FFT is '${TOMOS_FFT}'; known are own and fftw")
endif()
