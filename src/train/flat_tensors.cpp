#include "train/flat_tensors.h"

#include <cstdint>
#include <map>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/zeros.h>

namespace ampctl::train {
namespace {

// What cudaMalloc aligns to: kernels choose wide loads by it.
constexpr int64_t kAlignmentBytes = 256;

/// Elements that `tensor` takes up, up to where the next may start.
int64_t extent(const at::Tensor& tensor) {
  const auto item = static_cast<int64_t>(tensor.element_size());
  const int64_t blocks = (tensor.numel() * item + kAlignmentBytes - 1) / kAlignmentBytes;
  return blocks * kAlignmentBytes / item;
}

}  // namespace

FlatTensors::FlatTensors(const std::vector<at::Tensor>& like, c10::Device device) : views_(like.size()) {
  const at::NoGradGuard no_grad;
  std::map<c10::ScalarType, std::vector<size_t>> by_dtype;
  for (size_t i = 0; i < like.size(); ++i) by_dtype[like[i].scalar_type()].push_back(i);
  for (auto& [dtype, members] : by_dtype) {
    int64_t total = 0;
    for (const size_t i : members) total += extent(like[i]);
    const at::Tensor values = at::zeros({total}, at::TensorOptions().device(device).dtype(dtype));
    int64_t offset = 0;
    for (const size_t i : members) {
      views_[i] = values.as_strided(like[i].sizes(), like[i].strides(), offset);
      offset += extent(like[i]);
    }
    flats_.push_back({values, members});
  }
}

void FlatTensors::copy_from(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& flat : flats_) {
    // PyTorch copies a list in one kernel only where it is of one dtype.
    std::vector<at::Tensor> views;
    std::vector<at::Tensor> sources;
    for (const size_t i : flat.members) {
      views.push_back(views_[i]);
      sources.push_back(tensors[i]);
    }
    at::_foreach_copy_(views, sources);
  }
}

void FlatTensors::copy_from(const FlatTensors& other) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < flats_.size(); ++i) {
    flats_[i].values.copy_(other.flats_[i].values, /*non_blocking=*/true);
  }
}

void FlatTensors::zero_() {
  for (auto& flat : flats_) flat.values.zero_();
}

}  // namespace ampctl::train
