// PyTorch's sync debug mode between logging steps: a debugging aid that shows code which makes the host wait.
#pragma once

#include <string>

namespace ampctl::train {

class SyncGuard {
 public:
  /// off | warn | error (log.cuda_sync_debug).
  explicit SyncGuard(const std::string& mode, bool cuda);
  ~SyncGuard();
  SyncGuard(const SyncGuard&) = delete;
  SyncGuard& operator=(const SyncGuard&) = delete;

  /// Watches from here on; a synchronising call warns or throws.
  void arm() const;
  /// Synchronising is allowed from here on (logging steps, evaluation, checkpoints).
  void disarm() const;

 private:
  int mode_ = 0;
};

}  // namespace ampctl::train
