#include "nn/layer.h"

#include <ATen/autocast_mode.h>

#include "amp/autocast.h"

namespace ampctl::nn {

at::Tensor Layer::operator()(const at::Tensor& input) {
  if (!force_float32_) return forward(input);
  const auto device = input.device().type();
  // The surrounding region's dtype and cache setting are passed on: a scope that captures a CUDA graph has
  // switched the cache off, and a forced layer inside must not switch it on again.
  const amp::Autocast off(device, at::autocast::get_autocast_dtype(device), /*enabled=*/false,
                          at::autocast::is_autocast_cache_enabled());
  return forward(at::isReducedFloatingType(input.scalar_type()) ? input.to(at::kFloat) : input);
}

}  // namespace ampctl::nn
