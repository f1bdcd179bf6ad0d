#include <c10/cuda/CUDAFunctions.h>

#include "train/sync_guard.h"

namespace ampctl::train {
namespace {

using c10::cuda::SyncDebugMode;

int parse(const std::string& mode) {
  if (mode == "error") return static_cast<int>(SyncDebugMode::L_ERROR);
  if (mode == "warn") return static_cast<int>(SyncDebugMode::L_WARN);
  return static_cast<int>(SyncDebugMode::L_DISABLED);
}

}  // namespace

SyncGuard::SyncGuard(const std::string& mode, bool cuda) : mode_(cuda ? parse(mode) : 0) {}
SyncGuard::~SyncGuard() { disarm(); }
void SyncGuard::arm() const {
  if (mode_ != 0) c10::cuda::warning_state().set_sync_debug_mode(static_cast<SyncDebugMode>(mode_));
}
void SyncGuard::disarm() const {
  if (mode_ != 0) c10::cuda::warning_state().set_sync_debug_mode(SyncDebugMode::L_DISABLED);
}

}  // namespace ampctl::train
