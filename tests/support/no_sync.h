// Makes every wait of the host for the GPU inside a scope an error (PyTorch's sync debug mode).
#pragma once

#include <c10/cuda/CUDAFunctions.h>

namespace ampctl::test {

class NoSync {
 public:
  NoSync() { c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR); }
  ~NoSync() { c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;
};

}  // namespace ampctl::test
