#include "amp/scale_recorder.h"

#include <algorithm>
#include <limits>
#include <string>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/error.h"
#include "kernels/record_row.h"

namespace ampctl::amp {
namespace {

// The order of a row's columns.
enum Column : int64_t {
  kStep,
  kScale,
  kGrowthTracker,
  kFoundInf,
  kGradNorm,
  kLossSum,
  kLr,
  kSamples,
  kColumns
};

at::Tensor copy_to_host(const at::Tensor& source) {
  const bool pinned = source.is_cuda();
  at::Tensor host = at::empty(source.sizes(), source.options().device(at::kCPU).pinned_memory(pinned));
  host.copy_(source, /*non_blocking=*/true);
  return host;
}

StepRow to_row(const double* columns, const uint8_t* flags, int64_t num_parameters) {
  StepRow row;
  row.step = static_cast<int64_t>(columns[kStep]);
  row.scale = columns[kScale];
  row.growth_tracker = static_cast<int64_t>(columns[kGrowthTracker]);
  row.found_inf = columns[kFoundInf] != 0.0;
  row.grad_norm = columns[kGradNorm];
  row.loss_sum = columns[kLossSum];
  row.lr = columns[kLr];
  row.samples = static_cast<int64_t>(columns[kSamples]);
  for (int64_t i = 0; i < num_parameters; ++i) {
    if (flags[i] != 0) row.nonfinite.push_back(i);
  }
  return row;
}

}  // namespace

bool PendingRows::ready() const { return !copied_ || copied_->query(); }

void PendingRows::wait() const {
  if (copied_) copied_->synchronize();
}

int64_t PendingRows::lost() const {
  wait();
  const auto* counts = counts_.const_data_ptr<int64_t>();
  return std::max<int64_t>(0, counts[0] - counts[1] - rows_.size(0));
}

std::vector<StepRow> PendingRows::rows() const {
  wait();
  const auto* counts = counts_.const_data_ptr<int64_t>();
  const int64_t capacity = rows_.size(0);
  std::vector<StepRow> result;
  for (int64_t i = counts[1] + lost(); i < counts[0]; ++i) {
    const int64_t place = i % capacity;
    result.push_back(to_row(rows_.const_data_ptr<double>() + place * rows_.size(1),
                            flags_.const_data_ptr<uint8_t>() + place * flags_.size(1), flags_.size(1)));
  }
  return result;
}

ScaleRecorder::ScaleRecorder(int64_t capacity, int64_t num_parameters, c10::Device device) {
  if (capacity < 1 || num_parameters < 0) {
    throw Error(ErrorKind::internal,
                "a scale recorder needs a capacity of at least 1 row and 0 or more parameters, got " +
                    std::to_string(capacity) + " and " + std::to_string(num_parameters));
  }
  const auto options = at::TensorOptions().device(device);
  rows_ = at::zeros({capacity, kColumns}, options.dtype(at::kDouble));
  flags_ = at::zeros({capacity, num_parameters}, options.dtype(at::kByte));
  counts_ = at::zeros({2}, options.dtype(at::kLong));
  zero_ = at::full({}, 0.0, rows_.options());
  one_ = at::full({}, 1.0, rows_.options());
  nan_ = at::full({}, std::numeric_limits<double>::quiet_NaN(), rows_.options());
  no_flags_ = at::zeros({num_parameters}, flags_.options());
}

void ScaleRecorder::record(const RecordedStep& step) {
  const at::NoGradGuard no_grad;
  if (step.nonfinite.defined() && step.nonfinite.numel() != flags_.size(1)) {
    throw Error(ErrorKind::internal, "the scale recorder was made for " + std::to_string(flags_.size(1)) +
                                         " parameters, but got flags of " +
                                         std::to_string(step.nonfinite.numel()));
  }
  if (!step.step.defined()) throw Error(ErrorKind::internal, "a recorded step needs its number");
  const auto or_else = [](const at::Tensor& value, const at::Tensor& absent) {
    return value.defined() ? value : absent;
  };
  std::vector<at::Tensor> values(kSamples);
  values[kStep] = step.step;
  values[kScale] = or_else(step.scale, one_);
  values[kGrowthTracker] = or_else(step.growth_tracker, zero_);
  values[kFoundInf] = or_else(step.found_inf, zero_);
  values[kGradNorm] = or_else(step.grad_norm, nan_);
  values[kLossSum] = or_else(step.loss_sum, nan_);
  values[kLr] = or_else(step.lr, nan_);
  kernels::record_row_(rows_, flags_, counts_, values, static_cast<double>(step.samples),
                       or_else(step.nonfinite, no_flags_));
}

PendingRows ScaleRecorder::drain() {
  const at::NoGradGuard no_grad;
  PendingRows pending;
  pending.rows_ = copy_to_host(rows_);
  pending.flags_ = copy_to_host(flags_);
  pending.counts_ = copy_to_host(counts_);
  counts_.narrow(0, 1, 1).copy_(counts_.narrow(0, 0, 1));
  if (!rows_.is_cpu()) {
    const auto device = rows_.device();
    const c10::impl::VirtualGuardImpl guard(device.type());
    pending.copied_.emplace(device.type());
    pending.copied_->record(guard.getStream(device));
  }
  return pending;
}

}  // namespace ampctl::amp
