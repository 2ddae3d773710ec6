# What `make install PREFIX=...` puts where; the tree can be moved afterwards.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tomos)
install(TARGETS tomos EXPORT tomos)
install(FILES include/tomos.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# find_package(tomos) gives tomos::tomos, which needs nothing else.
install(EXPORT tomos NAMESPACE tomos:: FILE tomosConfig.cmake DESTINATION ${package_dir})
write_basic_package_version_file(tomosConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tomosConfigVersion.cmake DESTINATION ${package_dir})

# The prefix is written as seen from the file itself.
file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" up "${up}")
configure_file(cmake/tomos.pc.in tomos.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tomos.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The command writes its own manual and completion, and the option structs as plain C, from the rows.
function(tomos_page target file option)
	add_custom_command(OUTPUT ${file} VERBATIM
		COMMAND sh -c "\"$1\" help $2 > \"$3\"" sh $<TARGET_FILE:tomos_command> ${option} ${file}
		DEPENDS tomos_command)
	add_custom_target(${target} ALL DEPENDS ${file})
endfunction()

# All that is installed, without the tests.
add_custom_target(product DEPENDS tomos)
foreach(module tomos_cuda tomos_opencl tomos_openmpi tomos_mpich)
	if(TARGET ${module})
		add_dependencies(product ${module})
	endif()
endforeach()
if(TARGET tomos_command)
	install(TARGETS tomos_command)
	tomos_page(tomos_manual ${PROJECT_BINARY_DIR}/tomos.1 --man)
	tomos_page(tomos_completion ${PROJECT_BINARY_DIR}/tomos.bash --bash-completion)
	tomos_page(tomos_header ${PROJECT_BINARY_DIR}/options.h --header)
	install(FILES ${PROJECT_BINARY_DIR}/options.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tomos)
	install(FILES ${PROJECT_BINARY_DIR}/tomos.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
	install(FILES ${PROJECT_BINARY_DIR}/tomos.bash RENAME tomos
		DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
	add_dependencies(product tomos_command tomos_manual tomos_completion tomos_header)
endif()
