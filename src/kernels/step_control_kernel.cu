#include <cuda_runtime.h>

#include "kernels/scalar_pointer.cuh"
#include "kernels/step_control_kernel.h"
#include "kernels/step_control_places.h"

namespace ampctl::kernels {
namespace {

// torch._amp_update_scale_.
__device__ void update_scale(const StepControl& control, bool is_skipped) {
  if (is_skipped) {
    *control.scale = static_cast<float>(*control.scale * control.backoff_factor);
    *control.growth_tracker = 0;
    return;
  }
  const int32_t successful = *control.growth_tracker + 1;
  if (successful != control.growth_interval) {
    *control.growth_tracker = successful;
    return;
  }
  const auto grown = static_cast<float>(*control.scale * control.growth_factor);
  if (isfinite(grown)) *control.scale = grown;
  *control.growth_tracker = 0;
}

__global__ void step_control_kernel(const StepControl control) {
  const int64_t steps_done = *control.steps_done;
  if (steps_done < 0 || steps_done >= control.lr_count) __trap();
  const bool is_skipped = read_scalar(control.found_inf) != 0.0;
  const bool is_scaled = control.scale != nullptr;
  const float scale = is_scaled ? *control.scale : 1.0F;

  double ratio = 1.0;
  if (control.samples.value != nullptr) {
    const double samples = read_scalar(control.samples);
    ratio = (samples < 1.0 ? 1.0 : samples) / control.planned_samples;
  }
  const double norm = read_scalar(control.norm) / scale / ratio;
  float grad_scale = scale * static_cast<float>(ratio);
  if (isfinite(control.max_norm)) {
    const double coefficient = 1.0 / (norm + kClipEpsilon) * control.max_norm;
    grad_scale /= coefficient > 1.0 ? 1.0F : static_cast<float>(coefficient);
  }
  control.decisions[kFoundInf] = is_skipped ? 1.0F : 0.0F;
  control.decisions[kGradScale] = grad_scale;
  control.decisions[kLr] = control.lr_table[steps_done];
  control.decisions[kStep] = static_cast<float>(steps_done + 1);
  control.records[kNorm] = norm;
  control.records[kLossSum] = read_scalar(control.loss_sum) / ratio;
  control.records[kScale] = scale;
  control.records[kGrowthTracker] = is_scaled ? *control.growth_tracker : 0;
  control.records[kWindow] = static_cast<double>(*control.windows);

  if (is_scaled) update_scale(control, is_skipped);
  if (!is_skipped) *control.steps_done = steps_done + 1;
  *control.windows += 1;
}

}  // namespace

cudaError_t launch_step_control(const StepControl& control, cudaStream_t stream) {
  step_control_kernel<<<1, 1, 0, stream>>>(control);
  return cudaGetLastError();
}

}  // namespace ampctl::kernels
