#include "optim/optimizer.h"

#include <cmath>

#include <ATen/ATen.h>

#include "base/error.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/no_sync.h"
#endif

using namespace ampctl;
using Groups = std::vector<optim::ParamGroup>;

namespace {

at::Tensor scalar(double value, c10::Device device) {
  return at::full({}, value, at::TensorOptions(device).dtype(at::kFloat));
}

optim::StepInputs inputs(c10::Device device, double step = 1.0, bool skip = false) {
  return {scalar(0.125, device), scalar(step, device), {}, scalar(skip ? 1.0 : 0.0, device)};
}

Groups two_parameters(c10::Device device) {
  const at::TensorOptions options(device);
  const at::Tensor weight = at::arange(24, options.dtype(at::kFloat)).reshape({2, 3, 2, 2}).requires_grad_();
  const at::Tensor bias = at::ones({5}, options).requires_grad_();
  return {{{"weight"}, {weight}, 0.1}, {{"bias"}, {bias}, 0.0}};
}

void set_grads(const Groups& groups, double value) {
  for (const auto& group : groups) {
    for (const auto& param : group.params) param.mutable_grad() = at::full_like(param.detach(), value);
  }
}

std::vector<std::pair<std::string, std::unique_ptr<optim::Optimizer>>> all_optimizers(const Groups& groups,
                                                                                      bool fused) {
  std::vector<std::pair<std::string, std::unique_ptr<optim::Optimizer>>> result;
  result.emplace_back("sgd", optim::make_sgd(groups, {.momentum = 0.9}, fused));
  result.emplace_back("damped sgd", optim::make_sgd(groups, {.momentum = 0.9, .dampening = 0.5}, fused));
  result.emplace_back("adam",
                      optim::make_adam(groups, {.amsgrad = true, .decoupled_weight_decay = false}, fused));
  result.emplace_back("adamw", optim::make_adam(groups, {.amsgrad = true}, fused));
  return result;
}

std::vector<at::Tensor> everything(const optim::Optimizer& optimizer) {
  std::vector<at::Tensor> result;
  for (const auto& group : optimizer.groups()) {
    for (const auto& param : group.params) result.push_back(param.detach().clone());
  }
  for (const auto& [name, state] : optimizer.named_state()) result.push_back(state.clone());
  return result;
}

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) return false;
  }
  return a.size() == b.size();
}

void check_skips_change_nothing(c10::Device device) {
  for (const bool fused : {false, true}) {
    const Groups groups = two_parameters(device);
    for (const auto& [name, optimizer] : all_optimizers(groups, fused)) {
      INFO(name << " fused " << fused);
      for (const double step : {1.0, 2.0}) {  // before and after there is state to lose
        const auto before = everything(*optimizer);
        set_grads(groups, NAN);
        const auto skipped = inputs(device, step, /*skip=*/true);
        optimizer->step(skipped);
        CHECK(equal(everything(*optimizer), before));
        CHECK(skipped.step.item<float>() == static_cast<float>(step));
        set_grads(groups, 0.5);
        optimizer->step(inputs(device, step));
        CHECK_FALSE(equal(everything(*optimizer), before));
      }
    }
  }
}

void check_missing_gradients(c10::Device device) {
  for (const bool fused : {false, true}) {
    const Groups groups = two_parameters(device);
    for (const auto& [name, optimizer] : all_optimizers(groups, fused)) {
      INFO(name << " fused " << fused);
      optimizer->zero_grad();
      CHECK(optimizer->gradients().empty());
      const auto before = everything(*optimizer);
      optimizer->step(inputs(device));
      CHECK(equal(everything(*optimizer), before));

      at::Tensor bias = groups[1].params[0];
      bias.mutable_grad() = at::ones_like(bias.detach());
      CHECK(optimizer->gradients().size() == 1);
      CHECK_FALSE(optimizer->gradients_or_undefined()[0].defined());
      CHECK(optimizer->gradients_or_undefined()[1].defined());
      const at::Tensor bias_before = bias.detach().clone();
      optimizer->step(inputs(device));
      CHECK(at::equal(groups[0].params[0], before[0]));
      CHECK_FALSE(at::equal(bias.detach(), bias_before));
    }
  }
}

// A gradient in another memory order must meet the right elements.
void check_gradients_of_another_layout(c10::Device device) {
  for (const bool fused : {false, true}) {
    const at::Tensor plain = at::zeros({2, 3, 4, 4}, at::TensorOptions(device)).requires_grad_();
    const at::Tensor channels_last = at::zeros({2, 3, 4, 4}, at::TensorOptions(device))
                                         .contiguous(at::MemoryFormat::ChannelsLast)
                                         .requires_grad_();
    const auto optimizer = optim::make_sgd({{{"plain", "channels_last"}, {plain, channels_last}, 0.0}},
                                           {.momentum = 0.9}, fused);
    const at::Tensor grad = at::arange(96, at::TensorOptions(device).dtype(at::kFloat)).reshape({2, 3, 4, 4});
    plain.mutable_grad() = grad.contiguous(at::MemoryFormat::ChannelsLast);
    channels_last.mutable_grad() = grad.clone();
    optimizer->step(inputs(device));
    CHECK(at::equal(plain.detach(), grad * -0.125));
    CHECK(at::equal(channels_last.detach(), grad * -0.125));
    CHECK(at::equal(optimizer->named_state()[1].second, grad));
  }
}

void check_mixed_dtypes(c10::Device device) {
  const at::TensorOptions options(device);
  Groups groups{
      {{"float", "double", "float2"},
       {at::zeros({3}, options).requires_grad_(), at::zeros({3}, options.dtype(at::kDouble)).requires_grad_(),
        at::zeros({3}, options).requires_grad_()},
       0.0}};
  for (const auto& [name, optimizer] : all_optimizers(groups, /*fused=*/true)) {
    set_grads(groups, 1.0);
    optimizer->step(inputs(device));
    for (const auto& param : groups[0].params) CHECK(param.detach().max().item<double>() < 0.0);
  }
}

void check_working_copies(c10::Device device) {
  for (const bool fused : {false, true}) {
    const Groups groups = two_parameters(device);
    const at::Tensor weight = groups[0].params[0];
    const at::Tensor bias = groups[1].params[0];
    const std::vector<optim::WorkingCopy> copies{{weight, at::zeros_like(weight.detach(), at::kHalf)},
                                                 {at::zeros({2}, at::TensorOptions(device)),
                                                  at::ones({2}, at::TensorOptions(device).dtype(at::kHalf))},
                                                 {bias, at::zeros_like(bias.detach(), at::kBFloat16)}};
    for (const auto& [name, optimizer] : all_optimizers(groups, fused)) {
      INFO(name << " fused " << fused);
      optimizer->set_working_copies(copies);
      for (const double step : {1.0, 2.0}) {
        set_grads(groups, 0.3);
        optimizer->step(inputs(device, step));
        CHECK(at::equal(copies[0].second, weight.detach().to(at::kHalf)));
        CHECK(at::equal(copies[2].second, bias.detach().to(at::kBFloat16)));
        CHECK(at::equal(copies[1].second, at::ones_like(copies[1].second)));  // of a stranger
        const at::Tensor before = copies[0].second.clone();
        set_grads(groups, NAN);
        optimizer->step(inputs(device, step, /*skip=*/true));
        CHECK(at::equal(copies[0].second, before));
      }
      optimizer->set_working_copies({});
      const at::Tensor before = copies[0].second.clone();
      set_grads(groups, 0.3);
      optimizer->step(inputs(device, 3.0));
      CHECK(at::equal(copies[0].second, before));
    }
  }
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_working_copies, "Working copies equal their parameters after every step")
AMPCTL_DEVICE_TEST_CASE(check_skips_change_nothing, "A step with found_inf changes nothing at all")
AMPCTL_DEVICE_TEST_CASE(check_missing_gradients, "Parameters without gradient keep value and state")
AMPCTL_DEVICE_TEST_CASE(check_gradients_of_another_layout,
                        "A gradient in another memory order reaches the right elements")
AMPCTL_DEVICE_TEST_CASE(check_mixed_dtypes, "One group may mix dtypes")

TEST_CASE("State is named by kind and parameter, and starts as zeros in the parameter's layout") {
  const Groups groups = two_parameters(at::kCPU);
  const auto names = [](const optim::Optimizer& optimizer) {
    std::vector<std::string> result;
    for (const auto& [name, state] : optimizer.named_state()) {
      CHECK(at::equal(state, at::zeros_like(state)));
      result.push_back(name);
    }
    return result;
  };
  using Names = std::vector<std::string>;
  CHECK(names(*optim::make_sgd(groups, {}, true)).empty());
  CHECK(names(*optim::make_sgd(groups, {.momentum = 0.9}, true)) ==
        Names{"momentum_buffer.weight", "momentum_buffer.bias"});
  CHECK(names(*optim::make_adam(groups, {}, true)) ==
        Names{"exp_avg.weight", "exp_avg.bias", "exp_avg_sq.weight", "exp_avg_sq.bias"});
  CHECK(names(*optim::make_adam(groups, {.amsgrad = true}, false)) ==
        Names{"exp_avg.weight", "exp_avg.bias", "exp_avg_sq.weight", "exp_avg_sq.bias",
              "max_exp_avg_sq.weight", "max_exp_avg_sq.bias"});
}

TEST_CASE("A working copy of another layout is refused") {
  const Groups groups = two_parameters(at::kCPU);
  const auto optimizer = optim::make_sgd(groups, {}, true);
  CHECK_THROWS_AS(optimizer->set_working_copies({{groups[1].params[0], at::zeros({4}, at::kHalf)}}), Error);
}

TEST_CASE("zero_grad drops gradients or zeroes them in place") {
  const Groups groups = two_parameters(at::kCPU);
  const auto optimizer = optim::make_sgd(groups, {}, true);
  set_grads(groups, 3.0);
  const at::Tensor kept = groups[0].params[0].grad();
  optimizer->zero_grad(/*set_to_none=*/false);
  CHECK(groups[0].params[0].grad().is_same(kept));
  CHECK(kept.abs().max().item<float>() == 0.0F);
  optimizer->zero_grad();
  CHECK_FALSE(groups[0].params[0].grad().defined());
}

TEST_CASE("Options that torch.optim refuses are refused") {
  const Groups groups = two_parameters(at::kCPU);
  CHECK_THROWS_WITH(optim::make_sgd(groups, {.nesterov = true}, true),
                    "Nesterov momentum requires a momentum and zero dampening");
  CHECK_THROWS_WITH(optim::make_sgd(groups, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}, true),
                    "Nesterov momentum requires a momentum and zero dampening");
  CHECK_THROWS_AS(optim::make_sgd(groups, {.momentum = -0.1}, true), Error);
  CHECK_THROWS_AS(optim::make_adam(groups, {.beta1 = 1.0}, true), Error);
  CHECK_THROWS_AS(optim::make_adam(groups, {.eps = -1.0}, true), Error);
}

TEST_CASE("Parameters and gradients that fused kernels would misread are refused") {
  const at::Tensor sliced = at::zeros({4, 4}).slice(1, 0, 2);
  CHECK_THROWS_AS(optim::make_sgd({{{"sliced"}, {sliced}, 0.0}}, {}, true), Error);
  CHECK_THROWS_AS(optim::make_sgd({{{"one", "two"}, {at::zeros({1})}, 0.0}}, {}, true), Error);
  const at::Tensor leaf = at::zeros({2}).requires_grad_();
  CHECK_THROWS_AS(optim::make_sgd({{{"computed"}, {leaf * 2}, 0.0}}, {}, true), Error);

  at::Tensor param = at::zeros({2, 3, 4, 4}).requires_grad_();
  const auto optimizer = optim::make_sgd({{{"weight"}, {param}, 0.0}}, {.momentum = 0.9}, true);
  param.set_data(param.detach().contiguous(at::MemoryFormat::ChannelsLast));
  param.mutable_grad() = at::ones_like(param.detach());
  CHECK_THROWS_AS(optimizer->step(inputs(at::kCPU)), Error);
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("Fused steps read nothing on the host", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::Device device(at::kCUDA, 0);
  const Groups groups = two_parameters(device);
  set_grads(groups, 1.0);
  auto step = inputs(device);
  step.grad_scale = scalar(2.0, device);
  for (const auto& [name, optimizer] : all_optimizers(groups, /*fused=*/true)) {
    INFO(name);
    const test::NoSync no_sync;
    CHECK_NOTHROW(optimizer->step(step));
    CHECK_NOTHROW(optimizer->zero_grad(/*set_to_none=*/false));
  }
}
#endif
