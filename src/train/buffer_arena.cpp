#include "train/buffer_arena.h"

#include <map>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <c10/core/InferenceMode.h>

namespace ampctl::train {

BufferArena::BufferArena(nn::Layer& model) {
  const at::NoGradGuard no_grad;
  std::map<c10::ScalarType, std::vector<at::Tensor>> by_dtype;
  for (const auto& item : model.named_buffers()) by_dtype[item.value().scalar_type()].push_back(item.value());
  for (auto& [dtype, buffers] : by_dtype) {
    int64_t total = 0;
    for (const auto& buffer : buffers) total += buffer.numel();
    Flat flat;
    flat.values = at::empty({total}, buffers.front().options());
    flat.saved = at::empty_like(flat.values);
    int64_t offset = 0;
    for (auto& buffer : buffers) {
      at::Tensor view = flat.values.narrow(0, offset, buffer.numel()).view(buffer.sizes());
      view.copy_(buffer);
      buffer.set_data(view);
      offset += buffer.numel();
    }
    flats_.push_back(std::move(flat));
  }
}

std::vector<at::Tensor> BufferArena::tensors() const {
  std::vector<at::Tensor> all;
  all.reserve(flats_.size());
  for (const auto& flat : flats_) all.push_back(flat.values);
  return all;
}

void BufferArena::snapshot() {
  for (auto& flat : flats_) flat.saved.copy_(flat.values);
}

void BufferArena::restore_if(const at::Tensor& found_inf) {
  if (flats_.empty()) return;
  const at::Tensor skipped = found_inf.gt(0);
  // where, not arithmetic: an overflowing forward leaves inf and NaN here, and 0 * inf would keep them.
  for (auto& flat : flats_) flat.values.copy_(at::where(skipped, flat.saved, flat.values));
}

}  // namespace ampctl::train
