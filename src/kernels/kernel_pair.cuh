// Two kernels of which the second is made ready while the first still runs (programmatic dependent launch).
// C++17. Each pass of batch norm is such a pair, and for small tensors the time between kernels is most of a
// pass. Devices before compute capability 9.0 start the second one when the first is done, as always.
#pragma once

#include <cuda_runtime.h>

namespace ampctl::kernels {

/// In the first kernel: from here on the second one may take what room is left on the device.
__device__ inline void let_second_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// In the second kernel, before it writes anything or reads what the first one wrote: waits for all of it.
/// What the first one wrote is to be read by __ldcg or plain loads; read-only ones (__ldg) may be moved
/// ahead.
__device__ inline void wait_for_first_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// True where `kernel` was compiled with the wait above.
template <typename Kernel>
bool waits_for_first_kernel(Kernel* kernel) {
  constexpr int kFirstPtxVersion = 90;
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess &&
         attributes.ptxVersion >= kFirstPtxVersion;
}

/// Launches the second kernel, right after the first on the same stream. Errors as of <<<>>>.
template <typename... Parameters>
void launch_second_kernel(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                          size_t shared_bytes, cudaStream_t stream, const Parameters&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = waits_for_first_kernel(kernel) ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace ampctl::kernels
