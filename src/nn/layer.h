// What models are made of. LibTorch's modules have neither hooks nor a virtual forward; every call of a Layer
// goes through one non-virtual function, where forced float32 and checkpointing (and later inspection) plug
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
  ///
  /// A layer marked with set_checkpoint_activations keeps its input alone for the backward pass, where it
  /// runs a second time (checkpointing.h); layers inside it that are marked as well run plainly. Throws a
  /// usage error while a CUDA graph is captured if anything inside draws random numbers: in a replay the
  /// second run could not draw the first one's.
  at::Tensor operator()(const at::Tensor& input);

  void set_force_float32(bool value) { force_float32_ = value; }
  [[nodiscard]] bool force_float32() const { return force_float32_; }

  /// Whether this layer may run on operators of this project, where they apply (the default), or on PyTorch's
  /// alone.
  void set_fused(bool value) { fused_ = value; }
  [[nodiscard]] bool fused() const { return fused_; }

  /// True when calling this layer does more than its forward(). Whoever does a layer's work in its stead, an
  /// operator for several layers in one, has to call it instead.
  [[nodiscard]] bool wraps_forward() const { return force_float32_ || checkpoint_activations_; }

  void set_checkpoint_activations(bool value) { checkpoint_activations_ = value; }
  [[nodiscard]] bool checkpoint_activations() const { return checkpoint_activations_; }

  /// True for normalisation layers, whose parameters optimizers usually leave out of weight decay.
  [[nodiscard]] virtual bool is_norm() const { return false; }

  /// True for layers whose own forward (not their children's) draws from the device's generator in training.
  [[nodiscard]] virtual bool draws_random_numbers() const { return false; }

  /// True for layers that work on their input in place or return a part of it. They have nothing to
  /// recompute: checkpointing passes them by.
  [[nodiscard]] virtual bool shares_its_input() const { return false; }

 protected:
  virtual at::Tensor forward(const at::Tensor& input) = 0;

 private:
  at::Tensor run(const at::Tensor& input);
  at::Tensor run_checkpointed(const at::Tensor& input);

  bool force_float32_ = false;
  bool fused_ = true;
  bool checkpoint_activations_ = false;
};

using LayerPtr = std::shared_ptr<Layer>;

}  // namespace ampctl::nn
