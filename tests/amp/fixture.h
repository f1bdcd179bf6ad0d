// Optimizers and a small model for the scaler's tests.
#pragma once

#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "amp/scalable_optimizer.h"
#include "optim/optimizer.h"

namespace ampctl::test {

/// Holds gradients set by hand and counts the steps that it is asked for.
class ProbeOptimizer : public amp::ScalableOptimizer {
 public:
  explicit ProbeOptimizer(std::vector<at::Tensor> grads, bool fused = false)
      : grads_(std::move(grads)), fused_(fused) {}
  [[nodiscard]] std::vector<at::Tensor> gradients() const override { return grads_; }
  [[nodiscard]] bool is_fused() const override { return fused_; }
  void step(const at::Tensor& grad_scale, const at::Tensor& found_inf) override {
    ++steps;
    seen_grad_scale = grad_scale;
    seen_found_inf = found_inf;
  }

  int64_t steps = 0;
  at::Tensor seen_grad_scale;
  at::Tensor seen_found_inf;

 private:
  std::vector<at::Tensor> grads_;
  bool fused_;
};

/// optim's optimizers as the scaler sees them, with the counter of updates on the device.
class OptimizerAdapter : public amp::ScalableOptimizer {
 public:
  OptimizerAdapter(optim::Optimizer& optimizer, double lr, c10::Device device)
      : optimizer_(optimizer),
        lr_(at::full({}, lr, at::TensorOptions(device).dtype(at::kFloat))),
        steps_done_(at::zeros_like(lr_)) {}
  [[nodiscard]] std::vector<at::Tensor> gradients() const override { return optimizer_.gradients(); }
  [[nodiscard]] bool is_fused() const override { return optimizer_.is_fused(); }
  void step(const at::Tensor& grad_scale, const at::Tensor& found_inf) override {
    optimizer_.step({lr_, steps_done_ + 1, grad_scale, found_inf});
    if (found_inf.defined()) {
      steps_done_ += 1 - found_inf;
    } else {
      steps_done_ += 1;
    }
  }

 private:
  optim::Optimizer& optimizer_;
  at::Tensor lr_;
  at::Tensor steps_done_;
};

/// Two linear layers of width 8, as in PyTorch's tests of the scaler; the same for every device.
struct Net {
  static constexpr int64_t kWidth = 8;
  std::vector<at::Tensor> params;

  explicit Net(c10::Device device) {
    at::Generator generator = at::detail::createCPUGenerator(3);
    for (const auto& shape : {std::vector<int64_t>{kWidth, kWidth}, {kWidth}, {kWidth, kWidth}, {kWidth}}) {
      at::Tensor value = at::rand(shape, generator).sub(0.5).mul(0.7);
      params.push_back(value.to(device).requires_grad_());
    }
  }

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const {
    return at::linear(at::linear(input, params[0], params[1]), params[2], params[3]);
  }

  [[nodiscard]] std::vector<optim::ParamGroup> groups() const {
    return {{{"0.weight", "0.bias", "1.weight", "1.bias"}, params, 0.0}};
  }
};

struct Sample {
  at::Tensor input;
  at::Tensor target;
};

inline std::vector<Sample> samples(c10::Device device, int count = 4) {
  at::Generator generator = at::detail::createCPUGenerator(4);
  std::vector<Sample> result;
  for (int i = 0; i < count; ++i) {
    const at::Tensor input = at::randn({Net::kWidth, Net::kWidth}, generator, at::kFloat);
    const at::Tensor target = at::randn({Net::kWidth, Net::kWidth}, generator, at::kFloat);
    result.push_back({input.to(device), target.to(device)});
  }
  return result;
}

inline double max_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double result = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    result = std::max(result, (a[i].detach() - b[i].detach()).abs().max().item<double>());
  }
  return result;
}

}  // namespace ampctl::test
