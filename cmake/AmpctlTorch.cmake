# Finds LibTorch (the torch wheel or a LibTorch zip folder) and makes the target ampctl::torch.
#
# find_package(Torch) is not used: it demands a CUDA toolkit even for host code, sets flags globally and
# ignores CMAKE_CUDA_ARCHITECTURES. Plain include and link paths are all that is needed.
# Looked at, in this order: CMAKE_PREFIX_PATH (a LibTorch folder, or torch.utils.cmake_prefix_path),
# the project's .venv, the torch of python3.
set(AMPCTL_PYTHON "" CACHE FILEPATH "Python with torch; used to find LibTorch and by the tests, never at run time")
if(NOT AMPCTL_PYTHON)
  if(EXISTS "${CMAKE_SOURCE_DIR}/.venv/bin/python")
    set(AMPCTL_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "" FORCE)
  else()
    find_program(AMPCTL_PYTHON3 python3)
    set(AMPCTL_PYTHON "${AMPCTL_PYTHON3}" CACHE FILEPATH "" FORCE)
  endif()
endif()

set(_torch_header include/torch/csrc/api/include/torch/version.h)
set(_torch_hints "")
set(_prefixes "${CMAKE_PREFIX_PATH}")
if(DEFINED ENV{CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" _environment_prefixes "$ENV{CMAKE_PREFIX_PATH}")
  list(APPEND _prefixes ${_environment_prefixes})
endif()
foreach(_prefix IN LISTS _prefixes)
  list(APPEND _torch_hints "${_prefix}" "${_prefix}/../..")
endforeach()
find_path(AMPCTL_TORCH_ROOT "${_torch_header}" HINTS ${_torch_hints} NO_DEFAULT_PATH)
if(NOT AMPCTL_TORCH_ROOT AND AMPCTL_PYTHON)
  execute_process(
    COMMAND "${AMPCTL_PYTHON}" -c
      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE _torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_path(AMPCTL_TORCH_ROOT "${_torch_header}" HINTS "${_torch_dir}" NO_DEFAULT_PATH)
endif()
if(NOT AMPCTL_TORCH_ROOT)
  message(FATAL_ERROR
    "LibTorch was not found: run scripts/quickstart.sh, or pass -DCMAKE_PREFIX_PATH=<unpacked LibTorch folder>")
endif()
get_filename_component(AMPCTL_TORCH_ROOT "${AMPCTL_TORCH_ROOT}" REALPATH)

file(READ "${AMPCTL_TORCH_ROOT}/include/torch/headeronly/version.h" _version_h)
string(REGEX MATCH "TORCH_VERSION[ \\\\\r\n]+\"([0-9.]+)" _ "${_version_h}")
set(AMPCTL_TORCH_VERSION "${CMAKE_MATCH_1}")
if(NOT AMPCTL_TORCH_VERSION MATCHES "^2\\.11\\.")
  message(FATAL_ERROR "LibTorch 2.11 is needed, found ${AMPCTL_TORCH_VERSION} in ${AMPCTL_TORCH_ROOT}")
endif()
message(STATUS "LibTorch ${AMPCTL_TORCH_VERSION}: ${AMPCTL_TORCH_ROOT}")

add_library(ampctl_torch INTERFACE)
add_library(ampctl::torch ALIAS ampctl_torch)
target_include_directories(ampctl_torch SYSTEM INTERFACE
  "${AMPCTL_TORCH_ROOT}/include" "${AMPCTL_TORCH_ROOT}/include/torch/csrc/api/include")
# libstdc++ first: libtorch.so exports copies of std::filesystem functions (remove_all among them) from the compiler
# that it was built with, and they crash in a program that binds to them.
target_link_libraries(ampctl_torch INTERFACE stdc++)
foreach(_library torch torch_cpu c10)
  set(_library_file "${AMPCTL_TORCH_ROOT}/lib/lib${_library}.so")
  if(NOT EXISTS "${_library_file}")
    message(FATAL_ERROR "LibTorch in ${AMPCTL_TORCH_ROOT} is incomplete: ${_library_file} is missing; unpack or "
      "install it again (a static LibTorch is not supported)")
  endif()
  # Full paths, so that CMake puts the folder into the run path of built programs.
  target_link_libraries(ampctl_torch INTERFACE "${_library_file}")
endforeach()
# libtorch.so defines nothing that a program calls; it is there to load libtorch_cuda.so. Ubuntu's linker
# default would drop it, and with it every GPU.
target_link_options(ampctl_torch INTERFACE LINKER:--no-as-needed)
