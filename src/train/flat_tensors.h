// Tensors of one device side by side in one flat tensor a dtype, so that all of them travel in one copy.
#pragma once

#include <cstddef>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace ampctl::train {

class FlatTensors {
 public:
  /// Zeros on `device` with the shapes, dtypes and strides of `like`, whose memory has no gaps.
  FlatTensors(const std::vector<at::Tensor>& like, c10::Device device);

  /// Views into the flat tensors, in the order of `like`; each starts where an allocation of its own could.
  [[nodiscard]] const std::vector<at::Tensor>& views() const { return views_; }

  /// Values of tensors of one device, in the order of `like`.
  void copy_from(const std::vector<at::Tensor>& tensors);
  /// Values of one that was made like the same tensors, from any device; the host does not wait.
  void copy_from(const FlatTensors& other);
  void zero_();

 private:
  struct Flat {
    at::Tensor values;
    std::vector<size_t> members;  // indices into views_
  };
  std::vector<Flat> flats_;
  std::vector<at::Tensor> views_;
};

}  // namespace ampctl::train
