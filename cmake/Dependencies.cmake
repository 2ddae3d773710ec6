# The libraries tomos stands on, behind one target.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBS REQUIRED IMPORTED_TARGET fftw3f fftw3 libtiff-4 libpng zlib jansson)
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
