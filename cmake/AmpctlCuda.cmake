# The CUDA compiler and headers: the system's nvcc 13, or the one that PyPI's nvidia-cuda-nvcc wheel brings.
# Makes ampctl::cuda (host headers and runtime) and enables the CUDA language; with AMPCTL_CUDA=OFF neither.
if(NOT AMPCTL_CUDA)
  message(STATUS "CUDA kernels: left out (AMPCTL_CUDA=OFF)")
  return()
endif()

get_filename_component(_site_packages "${AMPCTL_TORCH_ROOT}/.." ABSOLUTE)
set(_wheel_cuda "${_site_packages}/nvidia/cu13")
find_program(AMPCTL_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" /usr/local/cuda/bin "${_wheel_cuda}/bin")
if(NOT AMPCTL_NVCC)
  message(FATAL_ERROR "nvcc 13 was not found: run scripts/quickstart.sh, or configure with -DAMPCTL_CUDA=OFF")
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "${AMPCTL_NVCC}")
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80)
endif()
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
enable_language(CUDA)

get_filename_component(_cuda_root "${CMAKE_CUDA_COMPILER}" REALPATH)
get_filename_component(_cuda_root "${_cuda_root}/../.." ABSOLUTE)
find_path(AMPCTL_CUDA_INCLUDE cuda_runtime_api.h HINTS "${_cuda_root}/include" "${_wheel_cuda}/include"
  /usr/local/cuda/include NO_DEFAULT_PATH)
find_library(AMPCTL_CUDART NAMES cudart libcudart.so.13 HINTS "${_cuda_root}/lib64" "${_cuda_root}/lib"
  "${_wheel_cuda}/lib" NO_DEFAULT_PATH)
add_library(ampctl_cuda INTERFACE)
add_library(ampctl::cuda ALIAS ampctl_cuda)
target_include_directories(ampctl_cuda SYSTEM INTERFACE "${AMPCTL_CUDA_INCLUDE}")
target_link_libraries(ampctl_cuda INTERFACE torch_cuda c10_cuda "${AMPCTL_CUDART}")
