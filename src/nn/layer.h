// What models are made of. LibTorch's modules have neither hooks nor a virtual forward; every call of a Layer
// goes through one non-virtual function, where forced-float32 (and later checkpointing and inspection) plug
// in.
#pragma once

#include <memory>
#include <string>

#include <torch/nn/module.h>

namespace ampctl::nn {

class Layer : public torch::nn::Module {
 public:
  /// The only way to run a layer. A layer marked with set_force_float32 runs with autocast off and
  /// floating-point inputs cast to float32.
  at::Tensor operator()(const at::Tensor& input);

  void set_force_float32(bool value) { force_float32_ = value; }
  [[nodiscard]] bool force_float32() const { return force_float32_; }

 protected:
  virtual at::Tensor forward(const at::Tensor& input) = 0;

 private:
  bool force_float32_ = false;
};

using LayerPtr = std::shared_ptr<Layer>;

/// Marks every layer whose dotted name matches one of the shell globs (fnmatch). Throws a usage error for a
/// pattern that matches nothing, naming the nearest layer names.
void force_float32_modules(Layer& root, const std::vector<std::string>& patterns);

}  // namespace ampctl::nn
