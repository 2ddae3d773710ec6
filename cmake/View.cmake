# What tomos view needs: the page as part of the program, and libmicrohttpd, which is opened at run time under the
# name that its library has here. Without it the command says so.
pkg_check_modules(MICROHTTPD QUIET libmicrohttpd>=0.9.71)
set(TOMOS_MICROHTTPD "libmicrohttpd.so.12")
if(MICROHTTPD_FOUND)
	find_library(MICROHTTPD_FILE microhttpd HINTS ${MICROHTTPD_LIBRARY_DIRS})
	get_filename_component(name "${MICROHTTPD_FILE}" REALPATH)
	if(name MATCHES "(libmicrohttpd\\.so\\.[0-9]+)")
		set(TOMOS_MICROHTTPD ${CMAKE_MATCH_1})
	endif()
else()
	message(STATUS "there is no libmicrohttpd 0.9.71 or newer, so no tomos view")
endif()

set(web ${PROJECT_SOURCE_DIR}/cli/view/web)
file(GLOB_RECURSE names CONFIGURE_DEPENDS RELATIVE ${web} ${web}/*)
list(TRANSFORM names PREPEND ${web}/ OUTPUT_VARIABLE paths)
list(JOIN names "|" joined)
set(made ${PROJECT_BINARY_DIR}/page_files.c)
add_custom_command(OUTPUT ${made} VERBATIM
	COMMAND ${CMAKE_COMMAND} -DFOLDER=${web} "-DFILES=${joined}" -DOUTPUT=${made}
		-P ${PROJECT_SOURCE_DIR}/cmake/EmbedPage.cmake
	DEPENDS ${PROJECT_SOURCE_DIR}/cmake/EmbedPage.cmake ${paths})

add_library(tomos_view INTERFACE)
target_sources(tomos_view INTERFACE ${made})
target_include_directories(tomos_view INTERFACE ${PROJECT_SOURCE_DIR}/cli/view)
target_include_directories(tomos_view SYSTEM INTERFACE ${MICROHTTPD_INCLUDE_DIRS})
target_compile_definitions(tomos_view INTERFACE TOMOS_HAS_MICROHTTPD=$<BOOL:${MICROHTTPD_FOUND}>
	TOMOS_MICROHTTPD="${TOMOS_MICROHTTPD}")
target_link_libraries(tomos_view INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
