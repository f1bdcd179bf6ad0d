// The working copies of a whole model.
#pragma once

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>

#include "nn/layer.h"
#include "nn/working_weight.h"

namespace ampctl::nn {

class WorkingWeights {
 public:
  /// Gives the float32 weights and biases of `model`'s convolutions and linear layers, outside of layers that
  /// are forced to float32, copies of `dtype` (float16 or bfloat16). The model is on its final device, in its
  /// final memory format, its layers' force_float32 set; it outlives this.
  WorkingWeights(Layer& model, c10::ScalarType dtype);
  /// Layers then cast as before.
  ~WorkingWeights();
  WorkingWeights(const WorkingWeights&) = delete;
  WorkingWeights& operator=(const WorkingWeights&) = delete;

  /// (parameter, copy): what an optimizer keeps equal (optim::Optimizer::set_working_copies).
  [[nodiscard]] std::vector<std::pair<at::Tensor, at::Tensor>> copies() const;
  /// Copies the parameters anew: after a checkpoint was loaded, they were broadcast, or anything else but the
  /// optimizer wrote them.
  void refresh();

  /// Weights' gradients of convolutions with sums (kernels/conv_sums.h) are from now on computed, cast and
  /// accumulated on `stream`, beside the rest of the backward pass; the caller of backward() waits for them
  /// as ever. What a GPU is not filled by gains; memory that both streams read is given back later. Not for
  /// parameters whose gradients something else takes up on its way, as the Reducer does.
  void set_gradient_stream(c10::Stream stream);

 private:
  struct Entry {
    at::Tensor parameter;
    at::Tensor copy;
    WorkingWeight* working;
  };
  void collect(torch::nn::Module& module, c10::ScalarType dtype);

  std::vector<Entry> entries_;
};

}  // namespace ampctl::nn
