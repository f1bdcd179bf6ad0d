# LibTorch's headers, compiled once for all targets that use them: a source takes a third of the time then.
#
# Sources include what they use all the same: with AMPCTL_PCH=OFF, and for clang-tidy, there is no such header. A
# precompiled header serves only compilations with its own flags and with the macros that it saw; -Winvalid-pch, which
# CMake adds, names what differs. Only the headers that nearly every source needs are worth their place, since each
# compilation loads all of it.
if(AMPCTL_PCH)
  add_library(ampctl_torch_pch OBJECT "${CMAKE_CURRENT_LIST_DIR}/torch_pch.cpp")
  target_link_libraries(ampctl_torch_pch PRIVATE ampctl_warnings ampctl::torch)
  target_precompile_headers(ampctl_torch_pch PRIVATE "${CMAKE_CURRENT_LIST_DIR}/torch_pch.h")
endif()

# ampctl_precompiled_torch(TARGET)
function(ampctl_precompiled_torch target)
  if(NOT AMPCTL_PCH)
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ampctl_torch_pch)
  # Programs are compiled with -fPIE, which the header is not; the later of the two flags counts.
  get_target_property(_type ${target} TYPE)
  if(_type STREQUAL "EXECUTABLE")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC>)
  endif()
endfunction()

# ampctl_without_torch(SOURCE...): those of such a target that include no header of LibTorch, which would load the
# precompiled one in vain (2 s).
function(ampctl_without_torch)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
