# What the Python package holds besides its modules (pyproject.toml): one file for the library, since
# a wheel has no links, with what is loaded at run time beside it, and the command.
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
