# What the Python package holds besides its modules (pyproject.toml): one file for the library, since
# a wheel has no links, with what is loaded at run time beside it, the command, and hints for editors and
# type checkers, which cannot see functions that are made at import.
set_target_properties(tomos PROPERTIES NO_SONAME ON VERSION "" SOVERSION "")
install(TARGETS tomos LIBRARY DESTINATION lib COMPONENT python NAMELINK_SKIP)
foreach(module cuda opencl)
	if(TARGET tomos_${module})
		install(TARGETS tomos_${module} LIBRARY DESTINATION lib COMPONENT python)
	endif()
endforeach()
if(TARGET tomos_command)
	set_target_properties(tomos_command PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
	install(TARGETS tomos_command RUNTIME DESTINATION bin COMPONENT python)
endif()

find_package(Python REQUIRED COMPONENTS Interpreter)
set(stubs ${PROJECT_BINARY_DIR}/__init__.pyi)
add_custom_command(OUTPUT ${stubs} VERBATIM
	COMMAND ${CMAKE_COMMAND} -E env TOMOS_LIBRARY=$<TARGET_FILE:tomos>
		${Python_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/python/stubs.py ${stubs}
	DEPENDS tomos ${PROJECT_SOURCE_DIR}/python/stubs.py)
add_custom_target(tomos_stubs ALL DEPENDS ${stubs})
install(FILES ${stubs} DESTINATION . COMPONENT python)
