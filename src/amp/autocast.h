// Autocast for one scope, as torch.autocast: enabled, dtype and cache for a device; restores everything on
// every way out, and clears the cast cache when the outermost scope ends.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace ampctl::amp {

class Autocast {
 public:
  /// `enabled` false makes a region that runs in the types of its inputs, also inside an enabled one.
  Autocast(c10::DeviceType device, c10::ScalarType dtype, bool enabled = true, bool cache_enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  bool previous_enabled_;
  c10::ScalarType previous_dtype_;
  bool previous_cache_enabled_;
};

}  // namespace ampctl::amp
