#include "amp/autocast.h"

#include <string>

#include <ATen/autocast_mode.h>

#include "base/error.h"

namespace ampctl::amp {

namespace autocast = at::autocast;

Autocast::Autocast(c10::DeviceType device, c10::ScalarType dtype, bool enabled, bool cache_enabled)
    : device_(device),
      previous_enabled_(autocast::is_autocast_enabled(device)),
      previous_dtype_(autocast::get_autocast_dtype(device)),
      previous_cache_enabled_(autocast::is_autocast_cache_enabled()) {
  if (enabled && dtype != c10::kHalf && dtype != c10::kBFloat16) {
    throw Error(ErrorKind::internal, std::string("autocast computes in float16 or bfloat16, not in ") +
                                         c10::toString(dtype) + "; run float32 and tf32 outside of autocast");
  }
  autocast::set_autocast_enabled(device, enabled);
  autocast::set_autocast_dtype(device, dtype);
  autocast::increment_nesting();
  autocast::set_autocast_cache_enabled(cache_enabled);
}

Autocast::~Autocast() {
  // The cache outlives regions that are nested: the outermost one alone knows that no cast is needed again.
  if (autocast::decrement_nesting() == 0) autocast::clear_cache();
  autocast::set_autocast_enabled(device_, previous_enabled_);
  autocast::set_autocast_dtype(device_, previous_dtype_);
  autocast::set_autocast_cache_enabled(previous_cache_enabled_);
}

}  // namespace ampctl::amp
