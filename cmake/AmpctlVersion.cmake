# Generates base/version.h: the project's version and, in a git checkout, the commit it was configured from.
set(AMPCTL_COMMIT "unknown")
find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(COMMAND "${GIT_EXECUTABLE}" -C "${CMAKE_SOURCE_DIR}" describe --always --tags
    OUTPUT_VARIABLE _described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(_described)
    set(AMPCTL_COMMIT "${_described}")
  endif()
endif()
# Rewritten only when it changes. Generated headers mirror src/; ampctl_library adds this folder.
set(AMPCTL_GENERATED_DIR "${CMAKE_BINARY_DIR}/generated")
configure_file("${CMAKE_SOURCE_DIR}/cmake/version.h.in" "${AMPCTL_GENERATED_DIR}/base/version.h" @ONLY)
