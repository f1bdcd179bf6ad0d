#include <limits>
#include <optional>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/scalar_argument.h"
#include "kernels/step_control_kernel.h"
#include "kernels/step_control_op.h"
#include "kernels/step_control_places.h"

namespace ampctl::kernels {
namespace {

StepOpResult step_control_cuda(const at::Tensor& found_inf, const at::Tensor& norm,
                               const at::Tensor& loss_sum, const std::optional<at::Tensor>& samples,
                               double planned_samples, const at::Tensor& lr_table, at::Tensor& steps_done,
                               at::Tensor& windows, const std::optional<at::Tensor>& scale,
                               const std::optional<at::Tensor>& growth_tracker, double growth_factor,
                               double backoff_factor, int64_t growth_interval,
                               std::optional<double> clip_grad_norm) {
  const at::Device device = lr_table.device();
  const auto argument = [&](const at::Tensor& scalar) {
    return scalar_argument(scalar, device, "step_control_");
  };
  const bool share_device = steps_done.device() == device && windows.device() == device &&
                            (!scale || scale->device() == device) &&
                            (!growth_tracker || growth_tracker->device() == device);
  TORCH_CHECK(share_device, "step_control_ takes a state on one device, ", device);
  const c10::cuda::CUDAGuard guard(device);
  at::Tensor decisions = at::empty({kDecisions}, lr_table.options());
  at::Tensor records = at::empty({kRecords}, lr_table.options().dtype(at::kDouble));
  StepControl control{};
  control.found_inf = argument(found_inf);
  control.norm = argument(norm);
  control.loss_sum = argument(loss_sum);
  if (samples) control.samples = argument(*samples);
  control.planned_samples = planned_samples;
  control.lr_table = lr_table.const_data_ptr<float>();
  control.lr_count = lr_table.numel();
  control.steps_done = steps_done.mutable_data_ptr<int64_t>();
  control.windows = windows.mutable_data_ptr<int64_t>();
  control.scale = scale ? scale->mutable_data_ptr<float>() : nullptr;
  control.growth_tracker = growth_tracker ? growth_tracker->mutable_data_ptr<int32_t>() : nullptr;
  control.growth_factor = growth_factor;
  control.backoff_factor = backoff_factor;
  control.growth_interval = growth_interval;
  control.max_norm = clip_grad_norm.value_or(std::numeric_limits<double>::infinity());
  control.decisions = decisions.mutable_data_ptr<float>();
  control.records = records.mutable_data_ptr<double>();
  C10_CUDA_CHECK(launch_step_control(control, c10::cuda::getCurrentCUDAStream()));
  return {decisions, records};
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) { library.impl("step_control_", &step_control_cuda); }

}  // namespace ampctl::kernels
