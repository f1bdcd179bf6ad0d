#include "train/buffer_arena.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

namespace ampctl::train {
namespace {

// Views of any dtype start at multiples of it, and kernels choose wide loads by it.
constexpr int64_t kAlignmentBytes = 16;

int64_t extent(const at::Tensor& buffer) {
  const auto bytes = static_cast<int64_t>(buffer.nbytes());
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

}  // namespace

BufferArena::BufferArena(nn::Layer& model) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> buffers;
  int64_t total = 0;
  for (const auto& item : model.named_buffers()) {
    buffers.push_back(item.value());
    total += extent(item.value());
  }
  if (buffers.empty()) return;
  bytes_ = at::zeros({total}, buffers.front().options().dtype(at::kByte));
  saved_ = at::empty_like(bytes_);
  int64_t offset = 0;
  for (auto& buffer : buffers) {
    const auto size = static_cast<int64_t>(buffer.nbytes());
    const at::Tensor view = bytes_.narrow(0, offset, size).view(buffer.scalar_type()).view(buffer.sizes());
    view.copy_(buffer);
    buffer.set_data(view);
    offset += extent(buffer);
  }
}

std::vector<at::Tensor> BufferArena::tensors() const {
  return bytes_.defined() ? std::vector<at::Tensor>{bytes_} : std::vector<at::Tensor>{};
}

void BufferArena::snapshot() {
  if (bytes_.defined()) saved_.copy_(bytes_);
}

void BufferArena::restore_if(const at::Tensor& found_inf) {
  if (!bytes_.defined()) return;
  // A choice of bytes, not arithmetic: an overflowing forward leaves inf and NaN here, and 0 * inf would keep
  // them.
  at::where_out(bytes_, found_inf.gt(0), saved_, bytes_);
}

}  // namespace ampctl::train
