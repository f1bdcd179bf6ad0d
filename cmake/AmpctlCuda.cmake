# The CUDA compiler and headers: the system's nvcc 13, or the one that PyPI's nvidia-cuda-nvcc wheel brings.
# Makes ampctl::cuda (host headers and runtime) and enables the CUDA language; with AMPCTL_CUDA=OFF neither.
if(NOT AMPCTL_CUDA)
  message(STATUS "CUDA kernels: left out (AMPCTL_CUDA=OFF)")
  return()
endif()

# The major version that this LibTorch was built for; nvcc's must be the same.
set(AMPCTL_CUDA_MAJOR 13)
# Ampere: the oldest GPU with bfloat16 and TF32. The embedded PTX also runs on everything newer.
set(AMPCTL_DEFAULT_CUDA_ARCHITECTURE 80)

if(NOT EXISTS "${AMPCTL_TORCH_ROOT}/lib/libtorch_cuda.so")
  message(FATAL_ERROR "LibTorch in ${AMPCTL_TORCH_ROOT} has no CUDA: take the build for CUDA ${AMPCTL_CUDA_MAJOR}, "
    "or configure with -DAMPCTL_CUDA=OFF")
endif()

# Where PyPI's nvcc would be: beside torch's own CUDA libraries, or in the Python given (with a LibTorch zip folder).
get_filename_component(_site_packages "${AMPCTL_TORCH_ROOT}/.." ABSOLUTE)
set(_wheel_cuda "${_site_packages}/nvidia/cu13")
if(NOT EXISTS "${_wheel_cuda}/include" AND AMPCTL_PYTHON)
  execute_process(COMMAND "${AMPCTL_PYTHON}" -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    OUTPUT_VARIABLE _site_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(_wheel_cuda "${_site_packages}/nvidia/cu13")
endif()

# An older nvcc of the distribution may come first in PATH, so each candidate is asked for its version.
if(NOT CMAKE_CUDA_COMPILER)
  find_program(_path_nvcc nvcc NO_CACHE)
  set(_nvcc_candidates "$ENV{CUDACXX}" "$ENV{CUDA_HOME}/bin/nvcc" "${_path_nvcc}" /usr/local/cuda/bin/nvcc
    "${_wheel_cuda}/bin/nvcc")
  set(_nvcc_rejected "")
  foreach(_nvcc IN LISTS _nvcc_candidates)
    if(NOT EXISTS "${_nvcc}")
      continue()
    endif()
    execute_process(COMMAND "${_nvcc}" --version OUTPUT_VARIABLE _nvcc_says ERROR_QUIET)
    if(_nvcc_says MATCHES "release ${AMPCTL_CUDA_MAJOR}\\.")
      set(CMAKE_CUDA_COMPILER "${_nvcc}")
      break()
    endif()
    string(REGEX MATCH "release [0-9.]+" _nvcc_release "${_nvcc_says}")
    string(APPEND _nvcc_rejected "\n  found and not taken: ${_nvcc} (${_nvcc_release})")
  endforeach()
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "nvcc ${AMPCTL_CUDA_MAJOR} was not found: run scripts/quickstart.sh, which installs it from "
      "PyPI, name one with -DCMAKE_CUDA_COMPILER=…, or leave the kernels out with -DAMPCTL_CUDA=OFF"
      "${_nvcc_rejected}")
  endif()
endif()

# The GPU in this machine decides for whom kernels are compiled, unless told otherwise.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(_architectures "")
  find_program(_nvidia_smi nvidia-smi NO_CACHE)
  if(_nvidia_smi)
    execute_process(COMMAND "${_nvidia_smi}" --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE _compute_caps ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" _architectures "${_compute_caps}")
    list(TRANSFORM _architectures REPLACE "\\." "")
    list(REMOVE_DUPLICATES _architectures)
  endif()
  if(NOT _architectures)
    set(_architectures ${AMPCTL_DEFAULT_CUDA_ARCHITECTURE})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "${_architectures}" CACHE STRING "GPU architectures that kernels are compiled for")
endif()

set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
# The runtime is LibTorch's own libcudart, linked below; a second, static copy would have its own state.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
# PyPI's nvcc looks for its libraries in lib64, and its wheel has them in lib; only CMake's first trials link them.
get_filename_component(_cuda_root "${CMAKE_CUDA_COMPILER}" REALPATH)
get_filename_component(_cuda_root "${_cuda_root}/../.." ABSOLUTE)
set(_library_path "$ENV{LIBRARY_PATH}")
set(ENV{LIBRARY_PATH} "${_cuda_root}/lib:${_library_path}")
enable_language(CUDA)
set(ENV{LIBRARY_PATH} "${_library_path}")
message(STATUS "CUDA kernels: ${CMAKE_CUDA_COMPILER} (${CMAKE_CUDA_COMPILER_VERSION}) for ${CMAKE_CUDA_ARCHITECTURES}")

find_path(AMPCTL_CUDA_INCLUDE cuda_runtime_api.h HINTS "${_cuda_root}/include" "${_wheel_cuda}/include"
  /usr/local/cuda/include NO_DEFAULT_PATH)
# The one that libtorch_cuda.so itself loads comes first.
find_library(AMPCTL_CUDART NAMES libcudart.so.13 cudart HINTS "${AMPCTL_TORCH_ROOT}/lib" "${_wheel_cuda}/lib"
  "${_cuda_root}/lib64" "${_cuda_root}/lib" NO_DEFAULT_PATH)
if(NOT AMPCTL_CUDA_INCLUDE OR NOT AMPCTL_CUDART)
  message(FATAL_ERROR "CUDA's runtime was not found beside ${CMAKE_CUDA_COMPILER}: cuda_runtime_api.h "
    "(${AMPCTL_CUDA_INCLUDE}), libcudart (${AMPCTL_CUDART}); install cuda-cudart-dev, or configure with "
    "-DAMPCTL_CUDA=OFF")
endif()
add_library(ampctl_cuda INTERFACE)
add_library(ampctl::cuda ALIAS ampctl_cuda)
target_include_directories(ampctl_cuda SYSTEM INTERFACE "${AMPCTL_CUDA_INCLUDE}")
target_link_libraries(ampctl_cuda INTERFACE "${AMPCTL_TORCH_ROOT}/lib/libtorch_cuda.so"
  "${AMPCTL_TORCH_ROOT}/lib/libc10_cuda.so" "${AMPCTL_CUDART}")

# cuDNN's header comes with torch's wheel (nvidia-cudnn-cu13) or the system, its library with LibTorch as well.
set(_wheel_cudnn "${AMPCTL_TORCH_ROOT}/../nvidia/cudnn")
find_path(AMPCTL_CUDNN_INCLUDE cudnn_graph.h HINTS "${_wheel_cudnn}/include" "${AMPCTL_CUDA_INCLUDE}")
find_library(AMPCTL_CUDNN NAMES libcudnn.so.9 HINTS "${_wheel_cudnn}/lib" "${AMPCTL_TORCH_ROOT}/lib")
if(AMPCTL_CUDNN_INCLUDE AND AMPCTL_CUDNN)
  set(AMPCTL_HAS_CUDNN ON)
  message(STATUS "cuDNN: ${AMPCTL_CUDNN}")
else()
  message(WARNING "cudnn_graph.h or libcudnn.so.9 was not found (install nvidia-cudnn-cu13, or pass "
    "-DAMPCTL_CUDNN_INCLUDE=… and -DAMPCTL_CUDNN=…): convolutions will not sum for batch norm")
endif()
