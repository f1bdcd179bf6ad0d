#include <functional>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "amp/autocast.h"
#include "base/error.h"
#include "nn/convolution.h"
#include "nn/gradient_slots.h"
#include "nn/layer_tree.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "nn/stateless.h"
#include "nn/working_weights.h"
#include "support/devices.h"

using namespace ampctl;

namespace {

struct Net {
  std::shared_ptr<nn::Conv2d> conv;
  std::shared_ptr<nn::Linear> linear;
  std::shared_ptr<nn::Sequential> model;

  [[nodiscard]] at::Tensor weight() const { return conv->weight(); }
};

Net make_net(c10::Device device) {
  at::manual_seed(3);
  Net net;
  net.conv = std::make_shared<nn::Conv2d>(
      nn::Conv2dOptions{.in_channels = 3, .out_channels = 5, .kernel_size = 3, .padding = 1});
  net.linear = std::make_shared<nn::Linear>(5, 7);
  net.model = std::make_shared<nn::Sequential>(std::vector<nn::LayerPtr>{
      net.conv, std::make_shared<nn::AdaptiveAvgPool2d>(), std::make_shared<nn::Flatten>(), net.linear});
  net.model->to(device);
  nn::to_channels_last(*net.model);
  return net;
}

at::Tensor images(c10::Device device, int64_t seed) {
  const at::Tensor index = at::arange(4 * 3 * 8 * 8, at::TensorOptions(device).dtype(at::kLong));
  const at::Tensor numerator = (index * 7919 + seed * 104729).remainder(2001) - 1000;
  return numerator.to(at::kFloat)
      .div(1024.0)
      .reshape({4, 3, 8, 8})
      .contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor output(nn::Layer& model, const at::Tensor& input, at::ScalarType dtype) {
  // Without the cache, so that autocast casts anew as it does in a training step.
  const amp::Autocast autocast(input.device().type(), dtype, /*enabled=*/true, /*cache_enabled=*/false);
  return model(input);
}

void accumulate(const Net& net, c10::Device device, at::ScalarType dtype, int micro_batches) {
  for (int i = 0; i < micro_batches; ++i) {
    output(*net.model, images(device, i), dtype).to(at::kFloat).square().sum().mul(64.0).backward();
  }
}

std::vector<at::Tensor> gradients(const Net& net) {
  std::vector<at::Tensor> result;
  for (const auto& parameter : net.model->parameters()) result.push_back(parameter.grad());
  return result;
}

void check_gradients(const Net& net, const Net& expected) {
  const auto ours = gradients(net);
  const auto theirs = gradients(expected);
  REQUIRE(ours.size() == 4);
  for (size_t i = 0; i < ours.size(); ++i) {
    INFO("parameter " << i);
    CHECK(ours[i].scalar_type() == at::kFloat);
    CHECK(ours[i].strides() == net.model->parameters()[i].strides());
    CHECK(at::equal(ours[i], theirs[i]));
    CHECK(ours[i].abs().max().item<float>() > 0.0F);
  }
}

std::vector<std::pair<at::Tensor, at::Tensor>> slots_of(const Net& net) {
  std::vector<std::pair<at::Tensor, at::Tensor>> slots;
  for (const auto& parameter : net.model->parameters()) {
    slots.emplace_back(parameter, at::full_like(parameter.detach(), 1e9));
  }
  return slots;
}

void check_beside_autocast(c10::Device device) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    for (const int micro_batches : {1, 3}) {
      for (const bool with_slots : {false, true}) {
        INFO(dtype << " micro-batches " << micro_batches << " slots " << with_slots);
        const Net expected = make_net(device);
        accumulate(expected, device, dtype, micro_batches);
        const Net net = make_net(device);
        nn::WorkingWeights weights(*net.model, dtype);
        const auto slots = slots_of(net);
        nn::GradientSlots gradient_slots(*net.model);
        if (with_slots) gradient_slots.set(slots);
        CHECK(at::equal(output(*net.model, images(device, 9), dtype),
                        output(*expected.model, images(device, 9), dtype)));
        for (int window = 0; window < 2; ++window) {  // slots serve again once gradients were dropped
          for (auto& parameter : net.model->parameters()) parameter.mutable_grad().reset();
          accumulate(net, device, dtype, micro_batches);
          check_gradients(net, expected);
          for (const auto& [parameter, slot] : slots) CHECK(parameter.grad().is_alias_of(slot) == with_slots);
        }
      }
    }
  }
}

// Two gradients are on their way at once; only one may have the slot.
void check_weight_used_twice(c10::Device device) {
  const auto twice = [&](const Net& net) {
    const at::Tensor loss = output(*net.model, images(device, 0), at::kBFloat16).sum() +
                            output(*net.model, images(device, 1), at::kBFloat16).sum() * 2;
    loss.backward();
  };
  const Net expected = make_net(device);
  twice(expected);
  const Net net = make_net(device);
  nn::WorkingWeights weights(*net.model, at::kBFloat16);
  nn::GradientSlots slots(*net.model);
  slots.set(slots_of(net));
  twice(net);
  check_gradients(net, expected);
}

void check_with_checkpointing(c10::Device device) {
  const Net expected = make_net(device);
  accumulate(expected, device, at::kBFloat16, 2);
  const Net net = make_net(device);
  net.conv->set_checkpoint_activations(true);
  nn::WorkingWeights weights(*net.model, at::kBFloat16);
  nn::GradientSlots slots(*net.model);
  slots.set(slots_of(net));
  accumulate(net, device, at::kBFloat16, 2);
  check_gradients(net, expected);
}

void check_where_it_applies(c10::Device device) {
  const Net net = make_net(device);
  const at::Tensor input = images(device, 0);
  const at::Tensor in_float32 = (*net.model)(input);
  const at::Tensor in_half = output(*net.model, input, at::kHalf);
  nn::WorkingWeights weights(*net.model, at::kBFloat16);
  // Zeroed copies give themselves away.
  for (const auto& [parameter, copy] : weights.copies()) copy.zero_();
  CHECK(at::equal((*net.model)(input), in_float32));
  CHECK(at::equal(output(*net.model, input, at::kHalf), in_half));
  CHECK(at::equal(output(*net.model, input, at::kBFloat16), at::zeros_like(in_half)));
  net.model->set_force_float32(true);
  CHECK(at::equal(output(*net.model, input, at::kBFloat16), in_float32));
  net.model->set_force_float32(false);
  weights.refresh();
  for (const auto& [parameter, copy] : weights.copies()) {
    CHECK(at::equal(copy, parameter.to(at::kBFloat16)));
    CHECK(copy.strides() == parameter.strides());
  }
  CHECK(weights.copies().size() == 4);
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_beside_autocast,
                        "Working weights give autocast's outputs and gradients bit for bit, in slots or not")
AMPCTL_DEVICE_TEST_CASE(check_weight_used_twice, "A weight that is used twice has the sum of both gradients")
AMPCTL_DEVICE_TEST_CASE(check_with_checkpointing,
                        "Working weights and slots serve activations that are computed again")
AMPCTL_DEVICE_TEST_CASE(check_where_it_applies,
                        "Copies are read under autocast of their dtype and nowhere else")

TEST_CASE("Layers forced to float32 get no copies, and none are left behind") {
  const Net net = make_net(at::kCPU);
  net.conv->set_force_float32(true);
  const at::Tensor input = images(at::kCPU, 0);
  const at::Tensor before = output(*net.model, input, at::kBFloat16);
  {
    const nn::WorkingWeights weights(*net.model, at::kBFloat16);
    REQUIRE(weights.copies().size() == 2);
    for (const auto& [parameter, copy] : weights.copies()) copy.zero_();
    CHECK_FALSE(at::equal(output(*net.model, input, at::kBFloat16), before));
  }
  CHECK(at::equal(output(*net.model, input, at::kBFloat16), before));
}

TEST_CASE("Nothing is recorded for frozen weights and in evaluation") {
  const at::Tensor parameter = at::ones({3}).requires_grad_();
  const at::Tensor copy = at::ones({3}, at::kHalf);
  {
    const at::NoGradGuard no_grad;
    CHECK(nn::working_weight(parameter, copy).is_same(copy));
  }
  CHECK(nn::working_weight(parameter.detach(), copy).is_same(copy));
  CHECK(nn::working_weight(parameter, copy).requires_grad());
}

TEST_CASE("Autograd notices a copy that was overwritten between forward and backward") {
  const at::Tensor parameter = at::ones({3}).requires_grad_();
  const at::Tensor copy = at::ones({3}, at::kHalf);
  const at::Tensor other = at::ones({3}, at::kHalf).requires_grad_();
  const at::Tensor loss = (nn::working_weight(parameter, copy) * other).sum();
  copy.fill_(2.0);
  CHECK_THROWS(loss.backward());
}

TEST_CASE("Working weights have derivatives of a higher order") {
  const at::Tensor parameter = at::full({3}, 2.0).requires_grad_();
  const at::Tensor weight = nn::working_weight(parameter, parameter.detach().to(at::kHalf));
  const auto first = torch::autograd::grad({weight.pow(3).sum()}, {parameter}, {}, std::nullopt,
                                           /*create_graph=*/true);
  CHECK(at::equal(first[0], at::full({3}, 12.0)));
  const auto second = torch::autograd::grad({first[0].sum()}, {parameter});
  CHECK(at::equal(second[0], at::full({3}, 12.0)));
}

TEST_CASE("Copies of other types and slots of another layout are refused") {
  const Net net = make_net(at::kCPU);
  CHECK_THROWS_AS(nn::WorkingWeights(*net.model, at::kFloat), Error);
  nn::GradientSlots slots(*net.model);
  CHECK_THROWS_AS(slots.set({{net.weight(), at::zeros({5, 3, 3, 3})}}), Error);
  CHECK_THROWS_AS(slots.set({{net.weight(), at::empty_like(net.weight(), at::kHalf)}}), Error);
}
