#include "kernels/gradient_slot.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "batch_norm_fixture.h"
#include "kernels/batch_norm_pair.h"
#include "kernels/batch_norm_pool.h"
#include "support/devices.h"

using namespace ampctl;
using kernels::BatchNormInputs;
using kernels::GradientSlot;
using kernels::GradientSlotPtr;

namespace {

constexpr test::ImageShape kShape{3, 16, 9, 7};
constexpr double kNothingSoFar = 1e9;

GradientSlotPtr slot_for(const at::Tensor& parameter) {
  return c10::make_intrusive<GradientSlot>(parameter, at::full_like(parameter.detach(), kNothingSoFar));
}

/// One or two norms and the operator that they are for, on two readers.
struct Operator {
  std::string name;
  std::function<std::vector<at::Tensor>(const at::Tensor&, const BatchNormInputs&, const BatchNormInputs&)>
      call;
  bool has_two_norms = false;
};

std::vector<Operator> operators() {
  return {{"norm and ReLU",
           [](const at::Tensor& input, const BatchNormInputs& norm, const BatchNormInputs&) {
             return kernels::batch_norm_act_fused(input, {}, norm, /*relu=*/true, 1);
           }},
          {"norm, addition and ReLU",
           [](const at::Tensor& input, const BatchNormInputs& norm, const BatchNormInputs&) {
             return kernels::batch_norm_act_fused(input, input.detach(), norm, /*relu=*/true, 2);
           }},
          {"norm, ReLU and pool",
           [](const at::Tensor& input, const BatchNormInputs& norm, const BatchNormInputs&) {
             return kernels::batch_norm_relu_max_pool_fused(input, norm, 2);
           }},
          {"two norms",
           [](const at::Tensor& input, const BatchNormInputs& norm, const BatchNormInputs& other) {
             return kernels::batch_norm_pair_fused(input, norm, input.detach() * 2, other, 2);
           },
           /*has_two_norms=*/true}};
}

struct Norms {
  BatchNormInputs first;
  BatchNormInputs second;
  explicit Norms(c10::Device device)
      : first(test::batch_norm_inputs(kShape.channels, at::kFloat, device)),
        second(test::batch_norm_inputs(kShape.channels, at::kFloat, device)) {}

  void give_slots() {
    for (auto* norm : {&first, &second}) {
      norm->weight_slot = slot_for(norm->weight);
      norm->bias_slot = slot_for(norm->bias);
    }
  }
  [[nodiscard]] std::vector<std::pair<at::Tensor, GradientSlotPtr>> parameters(const Operator& op) const {
    std::vector<std::pair<at::Tensor, GradientSlotPtr>> list{{first.weight, first.weight_slot},
                                                             {first.bias, first.bias_slot}};
    if (op.has_two_norms) {
      list.emplace_back(second.weight, second.weight_slot);
      list.emplace_back(second.bias, second.bias_slot);
    }
    return list;
  }
};

at::Tensor loss(const Operator& op, const Norms& norms, c10::Device device, double factor) {
  at::Tensor sum;
  for (const auto& output :
       op.call(test::random_images(kShape, at::kFloat, 1).to(device), norms.first, norms.second)) {
    const at::Tensor part = output.square().sum() * factor;
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

// `uses` forward passes end in one backward pass, `passes` times over without zero_grad between.
void check_gradients(const Operator& op, c10::Device device, int uses, int passes) {
  INFO(op.name << ", used " << uses << " times in each of " << passes << " backward passes");
  const auto run = [&](const Norms& norms) {
    for (int pass = 0; pass < passes; ++pass) {
      at::Tensor total = loss(op, norms, device, 1.0);
      for (int use = 1; use < uses; ++use) total = total + loss(op, norms, device, 0.5);
      total.backward();
    }
  };
  const Norms plain(device);
  run(plain);
  Norms placed(device);
  placed.give_slots();
  run(placed);
  const auto wanted = plain.parameters(op);
  const auto found = placed.parameters(op);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& [parameter, slot] = found[i];
    CHECK(at::equal(parameter.grad(), wanted[i].first.grad()));
    CHECK(parameter.grad().abs().max().item<double>() > 0);
    if (uses > 1) continue;
    // With a gradient there the slot gives nothing; without one it gives the place that the gradient had.
    const at::Tensor grad = parameter.grad();
    CHECK_FALSE(slot->take().defined());
    parameter.mutable_grad().reset();
    CHECK(slot->take().is_alias_of(grad));
  }
}

void check_operators(c10::Device device) {
  for (const auto& op : operators()) {
    for (const int uses : {1, 2}) {
      for (const int passes : {1, 2}) check_gradients(op, device, uses, passes);
    }
  }
}

}  // namespace

TEST_CASE("A slot gives its place to one gradient at a time, and none to a parameter that has one") {
  const at::Tensor parameter = at::ones({3}).requires_grad_();
  const at::Tensor place = at::zeros({3});
  GradientSlot slot(parameter, place);
  at::Tensor given = slot.take();
  REQUIRE(given.defined());
  CHECK(given.is_alias_of(place));
  CHECK_FALSE(slot.take().defined());
  given.reset();
  CHECK(slot.take().defined());
  parameter.mutable_grad() = at::ones({3});
  CHECK_FALSE(slot.take().defined());
}

TEST_CASE("A gradient without a slot, or whose slot is taken, gets memory of its own") {
  const at::Tensor parameter = at::ones({3}).requires_grad_();
  const at::Tensor place = at::zeros({3});
  const GradientSlotPtr slot = c10::make_intrusive<GradientSlot>(parameter, place);
  CHECK(kernels::gradient_memory({}, parameter).sizes() == parameter.sizes());
  const at::Tensor first = kernels::gradient_memory(slot, parameter);
  const at::Tensor second = kernels::gradient_memory(slot, parameter);
  CHECK(first.is_alias_of(place));
  CHECK_FALSE(second.is_alias_of(place));
  CHECK(second.sizes() == parameter.sizes());
}

TEST_CASE("A place of another dtype or shape than its parameter's is refused") {
  const at::Tensor parameter = at::ones({3, 2});
  CHECK_THROWS_AS(GradientSlot(parameter, at::ones({3, 2}, at::kHalf)), Error);
  CHECK_THROWS_AS(GradientSlot(parameter, at::ones({2, 3})), Error);
  CHECK_THROWS_AS(GradientSlot(parameter, at::ones({2, 3}).t()), Error);
}

AMPCTL_DEVICE_TEST_CASE(
    check_operators, "Batch norm writes its parameters' gradients into their slots, equal to those without")
