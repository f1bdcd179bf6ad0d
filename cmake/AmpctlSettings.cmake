# Compiler settings that every target shares.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# LibTorch is compiled for O2 as well; O3 costs build time and changes nothing that is hot here.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

# Programs land in one place, in the build tree as after installation, so that `ampctl` finds its worker beside it.
include(GNUInstallDirs)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
# Installed programs keep finding libraries where the build found them.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

if(AMPCTL_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${AMPCTL_SANITIZE}>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${AMPCTL_SANITIZE})
endif()

find_program(AMPCTL_CCACHE ccache)
if(AMPCTL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${AMPCTL_CCACHE}")
  if(AMPCTL_PCH)
    # ccache hashes the precompiled header itself then, and demands leave to do so.
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${AMPCTL_CCACHE}")
  endif()
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${AMPCTL_CCACHE}")
endif()
find_program(AMPCTL_MOLD mold)
if(AMPCTL_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Interface target with the warnings that this project's own code must be free of.
add_library(ampctl_warnings INTERFACE)
target_compile_options(ampctl_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${AMPCTL_WERROR}>>:-Werror>)
