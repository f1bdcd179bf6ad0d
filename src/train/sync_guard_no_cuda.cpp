#include "base/error.h"
#include "train/sync_guard.h"

namespace ampctl::train {

SyncGuard::SyncGuard(const std::string& mode, bool cuda) {
  if (cuda && mode != "off") {
    throw usage_error(
        "log.cuda_sync_debug: " + mode +
        " needs a build with CUDA (this one was configured with AMPCTL_CUDA=OFF); set it to off");
  }
}
SyncGuard::~SyncGuard() = default;
void SyncGuard::arm() const {}
void SyncGuard::disarm() const {}

}  // namespace ampctl::train
