// Keeps a model's buffers (batch norm's running statistics and counters) in one flat tensor of bytes, so that
// a skipped step can take back what its forward passes wrote to them: one copy before the window, one select
// after it.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/layer.h"

namespace ampctl::train {

class BufferArena {
 public:
  /// Replaces the storage of every buffer of `model` by a view into the arena; values and names stay. The
  /// model must be on its final device already.
  explicit BufferArena(nn::Layer& model);

  /// The tensor of bytes (uint8) that holds all buffers, always the same one; none where there are no
  /// buffers.
  [[nodiscard]] std::vector<at::Tensor> tensors() const;

  /// Remembers the buffers as they are now.
  void snapshot();
  /// Where `found_inf` (0-dim float32, same device) is 1, puts the remembered values back. Reads nothing on
  /// the host.
  void restore_if(const at::Tensor& found_inf);

 private:
  at::Tensor bytes_;  // undefined: the model has no buffers
  at::Tensor saved_;
};

}  // namespace ampctl::train
