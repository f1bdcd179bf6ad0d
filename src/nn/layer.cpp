#include "nn/layer.h"

#include <string>

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include "amp/autocast.h"
#include "base/error.h"
#include "nn/checkpointing.h"
#include "nn/layer_tree.h"

namespace ampctl::nn {

at::Tensor Layer::operator()(const at::Tensor& input) {
  const bool keeps = !checkpoint_activations_ || !at::GradMode::is_enabled() || is_recomputing();
  return keeps || shares_its_input() ? run(input) : run_checkpointed(input);
}

at::Tensor Layer::run_checkpointed(const at::Tensor& input) {
  if (is_capturing(input.device()) && draws_random_numbers_inside(*this)) {
    throw usage_error("train.activation_checkpointing: layer '" + name() +
                      "' draws random numbers (dropout), which a CUDA graph cannot draw a second time; set "
                      "train.cuda_graph: false");
  }
  // The graph may outlive the model.
  const auto self = shared_from_this();
  return checkpoint([this, self](const at::Tensor& x) { return run(x); }, input, parameters());
}

at::Tensor Layer::run(const at::Tensor& input) {
  if (!force_float32_) return forward(input);
  const auto device = input.device().type();
  // The surrounding region's dtype and cache setting are passed on: a scope that captures a CUDA graph has
  // switched the cache off, and a forced layer inside must not switch it on again.
  const amp::Autocast off(device, at::autocast::get_autocast_dtype(device), /*enabled=*/false,
                          at::autocast::is_autocast_cache_enabled());
  return forward(at::isReducedFloatingType(input.scalar_type()) ? input.to(at::kFloat) : input);
}

}  // namespace ampctl::nn
