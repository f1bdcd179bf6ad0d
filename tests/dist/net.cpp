#include "net.h"

#include <algorithm>
#include <array>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>

namespace ampctl::test {
namespace {

constexpr int64_t kFeatures = 6;
constexpr int64_t kHidden = 16;
constexpr int64_t kClasses = 5;
constexpr uint64_t kDataSeed = 99;

}  // namespace

Net::Net(uint64_t seed, at::TensorOptions options) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto add = [&](const char* name, at::IntArrayRef shape) {
    const at::Tensor value = at::randn(shape, generator, at::kDouble).mul(0.3).to(options);
    parameters.emplace_back(name, value.set_requires_grad(true));
  };
  add("fc1.weight", {kHidden, kFeatures});
  add("fc1.bias", {kHidden});
  add("fc2.weight", {kClasses, kHidden});
  add("fc2.bias", {kClasses});
  add("branch.weight", {kClasses, kFeatures});
}

at::Tensor Net::forward(const at::Tensor& x, bool with_branch) const {
  const auto parameter = [this](size_t index) { return parameters[index].second; };
  const at::Tensor hidden = at::relu(at::linear(x, parameter(0), parameter(1)));
  const at::Tensor logits = at::linear(hidden, parameter(2), parameter(3));
  return with_branch ? logits + at::linear(x, parameter(4)) : logits;
}

std::vector<at::Tensor> Net::gradients() const {
  std::vector<at::Tensor> list;
  list.reserve(parameters.size());
  for (const auto& [name, tensor] : parameters) list.push_back(tensor.grad());
  return list;
}

void Net::zero_gradients() const {
  for (const auto& [name, tensor] : parameters) {
    if (tensor.grad().defined()) tensor.grad().zero_();
  }
}

Samples Samples::part(int64_t begin, int64_t size) const {
  return {x.narrow(0, begin, size), y.narrow(0, begin, size)};
}

Samples make_samples(int64_t count, at::TensorOptions options) {
  const at::Generator generator = at::detail::createCPUGenerator(kDataSeed);
  const at::Tensor x = at::randn({count, kFeatures}, generator, at::kDouble).to(options);
  return {x, at::randint(0, kClasses, {count}, generator, at::kLong).to(x.device())};
}

at::Tensor summed_loss(const Net& net, const Samples& samples, bool with_branch) {
  return at::cross_entropy_loss(net.forward(samples.x, with_branch), samples.y, {}, at::Reduction::Sum);
}

std::vector<at::Tensor> expected_gradients(uint64_t seed, const Samples& samples, bool with_branch) {
  const Net net(seed, samples.x.options());
  summed_loss(net, samples, with_branch).div(samples.size()).backward();
  return net.gradients();
}

double largest_difference(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected) {
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].defined()) continue;
    const at::Tensor right = expected[i].to(at::kDouble);
    const auto difference = (actual[i].to(at::kDouble) - right).norm().item<double>();
    largest = std::max(largest, difference / right.norm().item<double>());
  }
  return largest;
}

}  // namespace ampctl::test
