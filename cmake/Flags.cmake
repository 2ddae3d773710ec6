# Warnings and sanitizers, one place for all targets.
set(TOMOS_SANITIZE "" CACHE STRING "for example address,undefined or thread")

add_library(tomos_flags INTERFACE)
target_compile_definitions(tomos_flags INTERFACE _GNU_SOURCE)
target_compile_options(tomos_flags INTERFACE -fvisibility=hidden -fno-math-errno
	-Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes)
if(TOMOS_WERROR)
	target_compile_options(tomos_flags INTERFACE -Werror)
endif()
if(TOMOS_SANITIZE)
	target_compile_options(tomos_flags INTERFACE -fsanitize=${TOMOS_SANITIZE}
		-fno-omit-frame-pointer -fno-sanitize-recover=all)
	target_link_options(tomos_flags INTERFACE -fsanitize=${TOMOS_SANITIZE})
endif()
