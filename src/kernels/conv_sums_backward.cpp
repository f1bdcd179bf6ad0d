#include "kernels/conv_sums_backward.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/ops/convolution_backward.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace ampctl::kernels {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

struct Convolution {
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;

  [[nodiscard]] std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& grad,
                                                                        const at::Tensor& input,
                                                                        const at::Tensor& weight,
                                                                        std::array<bool, 3> mask) const {
    return at::convolution_backward(grad, input, weight, /*bias_sizes=*/at::OptionalIntArrayRef(), stride,
                                    padding, /*dilation=*/{1, 1}, /*transposed=*/false,
                                    /*output_padding=*/{0, 0}, /*groups=*/1, mask);
  }
};

// Either node.
class ConvBackward : public torch::autograd::Node {
 public:
  ConvBackward(Convolution convolution, const at::Tensor& input, const at::Tensor& weight)
      : convolution_(std::move(convolution)),
        input_(input, /*is_output=*/false),
        weight_(weight, /*is_output=*/false) {}

  void release_variables() override {
    input_.reset_data();
    weight_.reset_data();
  }

 protected:
  Convolution convolution_;
  SavedVariable input_;
  SavedVariable weight_;
};

class ConvWeightBackward : public ConvBackward {
 public:
  using ConvBackward::ConvBackward;

  [[nodiscard]] std::string name() const override { return "ConvWeightBackward"; }

  // The input was made on another stream, which may give its memory to others while this one still reads.
  void run_beside(c10::Stream stream) { beside_ = stream; }

  variable_list apply(variable_list&& grads) override {
    if (!grads[0].defined()) return {at::Tensor()};
    const at::Tensor input = input_.unpack();
    auto [none, grad_weight, no_bias] =
        convolution_.backward(grads[0], input, weight_.unpack(), {false, true, false});
    if (beside_) input.record_stream(*beside_);
    return {std::move(grad_weight)};
  }

 private:
  std::optional<c10::Stream> beside_;
};

class ConvInputBackward : public ConvBackward {
 public:
  using ConvBackward::ConvBackward;

  [[nodiscard]] std::string name() const override { return "ConvInputBackward"; }

  variable_list apply(variable_list&& grads) override {
    variable_list results(2);
    if (!grads[0].defined()) return results;
    if (task_should_compute_output(0)) {
      results[0] = std::get<0>(
          convolution_.backward(grads[0], input_.unpack(), weight_.unpack(), {true, false, false}));
    }
    if (task_should_compute_output(1)) results[1] = grads[0];
    return results;
  }
};

torch::autograd::Edge edge_to(const at::Tensor& tensor) {
  return tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor) : torch::autograd::Edge();
}

std::optional<c10::Stream> history_stream(const at::Tensor& tensor) {
  const auto& history = tensor.grad_fn();
  return history ? history->stream() : std::nullopt;
}

}  // namespace

void set_conv_history(at::Tensor& output, const at::Tensor& input, const at::Tensor& weight,
                      const std::vector<int64_t>& stride, const std::vector<int64_t>& padding) {
  const Convolution convolution{stride, padding};
  torch::autograd::Edge weight_edge;
  if (weight.requires_grad()) {
    const std::shared_ptr<ConvWeightBackward> node(new ConvWeightBackward(convolution, input, weight),
                                                   torch::autograd::deleteNode);
    node->set_next_edges({edge_to(weight)});
    const auto stream = history_stream(weight);
    const c10::OptionalStreamGuard guard(stream);
    if (stream) node->run_beside(*stream);
    node->add_input_metadata(output);
    weight_edge = {node, 0};
  }
  const std::shared_ptr<ConvInputBackward> node(new ConvInputBackward(convolution, input, weight),
                                                torch::autograd::deleteNode);
  node->set_next_edges({edge_to(input), std::move(weight_edge)});
  torch::autograd::set_history(output, node);
}

}  // namespace ampctl::kernels
