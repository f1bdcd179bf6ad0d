// What models are made of. LibTorch's modules have neither hooks nor a virtual forward; every call of a Layer
// goes through one non-virtual function, where forced-float32 (and later checkpointing and inspection) plug
// in.
#pragma once

#include <memory>

#include <torch/nn/module.h>

namespace ampctl::nn {

class Layer : public torch::nn::Module {
 public:
  /// The only way to run a layer. A layer marked with set_force_float32 runs, with everything inside it, with
  /// autocast off on the input's kind of device, and a float16 or bfloat16 input is cast to float32 (float64
  /// stays, as under torch.amp.custom_fwd). Its output is then float32; what follows casts by its own rules.
  at::Tensor operator()(const at::Tensor& input);

  void set_force_float32(bool value) { force_float32_ = value; }
  [[nodiscard]] bool force_float32() const { return force_float32_; }

  /// Whether this layer may run on operators of this project, where they apply (the default), or on PyTorch's
  /// alone.
  void set_fused(bool value) { fused_ = value; }
  [[nodiscard]] bool fused() const { return fused_; }

  /// True when calling this layer does more than its forward(). Whoever does a layer's work in its stead, an
  /// operator for several layers in one, has to call it instead.
  [[nodiscard]] bool wraps_forward() const { return force_float32_; }

  /// True for normalisation layers, whose parameters optimizers usually leave out of weight decay.
  [[nodiscard]] virtual bool is_norm() const { return false; }

 protected:
  virtual at::Tensor forward(const at::Tensor& input) = 0;

 private:
  bool force_float32_ = false;
  bool fused_ = true;
};

using LayerPtr = std::shared_ptr<Layer>;

}  // namespace ampctl::nn
