#include "amp/grad_scaler.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>

#include "base/error.h"

namespace ampctl::amp {
namespace {

// Both texts are PyTorch's, which people search the web for.
constexpr const char* kScaleFirst =
    "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration.";
constexpr const char* kEmptyState =
    "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.";

Error misuse(const std::string& message) { return {ErrorKind::internal, message}; }

void check_factors(double growth, double backoff) {
  // Written so that NaN is refused too.
  if (!(growth > 1.0)) throw usage_error("The growth factor must be > 1.0.");
  if (!(backoff < 1.0)) throw usage_error("The backoff factor must be < 1.0.");
}

// What the check reads and the unscaling writes: of a sparse gradient its values.
at::Tensor checked_values(const at::Tensor& grad, bool allow_fp16) {
  if (!allow_fp16 && grad.scalar_type() == at::kHalf) throw misuse("Attempting to unscale FP16 gradients.");
  if (!grad.is_sparse()) return grad;
  // Duplicate indices are summed when the optimizer coalesces, and in float16 that sum may overflow where
  // its terms do not.
  return grad.scalar_type() == at::kHalf ? grad.coalesce()._values() : grad._values();
}

struct Bucket {
  at::Device device;
  at::ScalarType dtype;
  std::vector<at::Tensor> grads;
};

std::vector<Bucket> by_device_and_dtype(const std::vector<at::Tensor>& grads, bool allow_fp16) {
  std::vector<Bucket> buckets;
  for (const auto& grad : grads) {
    at::Tensor values = checked_values(grad, allow_fp16);
    auto bucket = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& b) {
      return b.device == values.device() && b.dtype == values.scalar_type();
    });
    if (bucket == buckets.end())
      bucket = buckets.insert(bucket, Bucket{values.device(), values.scalar_type(), {}});
    bucket->grads.push_back(std::move(values));
  }
  return buckets;
}

at::Tensor to_device(const at::Tensor& value, const at::Device& device) {
  return value.to(value.options().device(device), /*non_blocking=*/true, /*copy=*/false);
}

// found_inf of several devices as one on `device`. The maximum, not the sum: optimizer kernels test for 1.
at::Tensor combined(const std::vector<at::Tensor>& found_infs, const at::Device& device) {
  at::Tensor result = to_device(found_infs.front(), device);
  for (size_t i = 1; i < found_infs.size(); ++i)
    result = at::maximum(result, to_device(found_infs[i], device));
  return result;
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), init_scale_(options.init_scale) {
  if (options_.enabled) check_factors(options_.growth_factor, options_.backoff_factor);
}

void GradScaler::require_scale(const char* function) const {
  if (!scale_.defined())
    throw misuse(std::string("Attempted ") + function + " but _scale is None.  " + kScaleFirst);
}

void GradScaler::materialize(const c10::Device& device) {
  if (!options_.enabled || scale_.defined()) return;
  const auto options = at::TensorOptions().device(device);
  scale_ = at::full({}, init_scale_, options.dtype(at::kFloat));
  growth_tracker_ = at::full({}, init_growth_tracker_, options.dtype(at::kInt));
}

at::Tensor GradScaler::scale(const at::Tensor& outputs) {
  if (!options_.enabled) return outputs;
  materialize(outputs.device());
  return outputs.mul(to_device(scale_, outputs.device()));
}

std::vector<at::Tensor> GradScaler::unscale_grads_(const std::vector<at::Tensor>& grads,
                                                   const at::Tensor& inv_scale, bool allow_fp16) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> found_infs;
  for (auto& bucket : by_device_and_dtype(grads, allow_fp16)) {
    if (bucket.device.is_cuda() && bucket.dtype == at::kBFloat16) {
      throw misuse(
          "Attempting to unscale BFloat16 gradients on CUDA, which PyTorch's kernel does not support: keep "
          "parameters in float32, or train in bfloat16 without a GradScaler");
    }
    auto found_inf = std::find_if(found_infs.begin(), found_infs.end(),
                                  [&](const at::Tensor& t) { return t.device() == bucket.device; });
    if (found_inf == found_infs.end()) {
      found_inf = found_infs.insert(found_inf, at::full({}, 0.0, scale_.options().device(bucket.device)));
    }
    at::_amp_foreach_non_finite_check_and_unscale_(bucket.grads, *found_inf,
                                                   to_device(inv_scale, bucket.device));
  }
  return found_infs;
}

void GradScaler::unscale_(ScalableOptimizer& optimizer) {
  if (!options_.enabled) return;
  require_scale("unscale_");
  PerOptimizer& state = per_optimizer_[&optimizer];
  if (state.stage == Stage::unscaled) {
    throw misuse("unscale_() has already been called on this optimizer since the last update().");
  }
  if (state.stage == Stage::stepped) throw misuse("unscale_() is being called after step().");
  // The reciprocal is taken in double precision, as PyTorch does.
  const at::Tensor inv_scale = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  auto found = unscale_grads_(optimizer.gradients(), inv_scale, /*allow_fp16=*/false);
  state.found_inf.insert(state.found_inf.end(), found.begin(), found.end());
  state.stage = Stage::unscaled;
}

void GradScaler::set_found_inf(ScalableOptimizer& optimizer, const at::Tensor& found_inf) {
  if (!options_.enabled) return;
  require_scale("set_found_inf");
  PerOptimizer& state = per_optimizer_[&optimizer];
  if (state.stage == Stage::stepped) throw misuse("set_found_inf() is being called after step().");
  state.found_inf.push_back(found_inf);
}

at::Tensor GradScaler::found_inf(const ScalableOptimizer& optimizer) const {
  const auto state = per_optimizer_.find(&optimizer);
  if (state == per_optimizer_.end() || state->second.found_inf.empty()) return {};
  return combined(state->second.found_inf, scale_.device());
}

void GradScaler::step(ScalableOptimizer& optimizer) {
  if (!options_.enabled) return optimizer.step({}, {});
  require_scale("step");
  PerOptimizer& state = per_optimizer_[&optimizer];
  if (state.stage == Stage::stepped) throw misuse("step() has already been called since the last update().");
  if (optimizer.is_fused())
    step_fused(optimizer, state);
  else
    step_unfused(optimizer, state);
  state.stage = Stage::stepped;
}

void GradScaler::step_fused(ScalableOptimizer& optimizer, PerOptimizer& state) {
  if (state.stage == Stage::ready && state.found_inf.empty()) {
    const at::Tensor unchanged = at::full({}, 1.0, scale_.options());
    state.found_inf = unscale_grads_(optimizer.gradients(), unchanged, /*allow_fp16=*/true);
  }
  if (state.found_inf.empty()) throw misuse("No inf checks were recorded for this optimizer.");
  // After unscale_ the kernel must not divide again, or clipped gradients would shrink by the scale.
  const at::Tensor grad_scale = state.stage == Stage::unscaled ? at::Tensor() : scale_;
  optimizer.step(grad_scale, combined(state.found_inf, scale_.device()));
}

void GradScaler::step_unfused(ScalableOptimizer& optimizer, PerOptimizer& state) {
  if (state.stage == Stage::ready) unscale_(optimizer);
  if (state.found_inf.empty()) throw misuse("No inf checks were recorded for this optimizer.");
  const bool overflow = combined(state.found_inf, scale_.device()).item<float>() != 0.0F;
  if (!overflow) optimizer.step({}, {});
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled) return;
  require_scale("update");
  if (new_scale) {
    scale_.fill_(*new_scale);
  } else {
    std::vector<at::Tensor> found_infs;
    for (const auto& [optimizer, state] : per_optimizer_)
      found_infs.insert(found_infs.end(), state.found_inf.begin(), state.found_inf.end());
    if (found_infs.empty()) throw misuse("No inf checks were recorded prior to update.");
    update_from_found_inf(combined(found_infs, scale_.device()));
  }
  per_optimizer_.clear();
}

void GradScaler::update_from_found_inf(const at::Tensor& found_inf) {
  if (!options_.enabled) return;
  require_scale("update");
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf, options_.growth_factor, options_.backoff_factor,
                         options_.growth_interval);
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1.0;
  return scale_.defined() ? scale_.item<double>() : init_scale_;
}

int64_t GradScaler::get_growth_tracker() const {
  if (!options_.enabled) return 0;
  return growth_tracker_.defined() ? growth_tracker_.item<int64_t>() : init_growth_tracker_;
}

void GradScaler::set_growth_factor(double value) {
  check_factors(value, options_.backoff_factor);
  options_.growth_factor = value;
}

void GradScaler::set_backoff_factor(double value) {
  check_factors(options_.growth_factor, value);
  options_.backoff_factor = value;
}

void GradScaler::set_growth_interval(int64_t value) { options_.growth_interval = value; }

std::optional<GradScalerState> GradScaler::state_dict() const {
  if (!options_.enabled) return std::nullopt;
  return GradScalerState{get_scale(), options_.growth_factor, options_.backoff_factor,
                         options_.growth_interval, get_growth_tracker()};
}

void GradScaler::load_state_dict(const std::optional<GradScalerState>& state) {
  if (!options_.enabled) return;
  if (!state) throw usage_error(kEmptyState);
  check_factors(state->growth_factor, state->backoff_factor);
  init_scale_ = state->scale;
  init_growth_tracker_ = state->growth_tracker;
  if (scale_.defined()) scale_.fill_(init_scale_);
  if (growth_tracker_.defined()) growth_tracker_.fill_(init_growth_tracker_);
  options_.growth_factor = state->growth_factor;
  options_.backoff_factor = state->backoff_factor;
  options_.growth_interval = state->growth_interval;
}

}  // namespace ampctl::amp
