// The scaler in training loops, after PyTorch's own tests (test_cuda.py, test_grad_scaling_*): a scaled run
// must end where the unscaled control run ends.
#include <cmath>
#include <functional>

#include <torch/csrc/autograd/autograd.h>

#include "amp/autocast.h"
#include "amp/fixture.h"
#include "amp/grad_scaler.h"
#include "optim/clip.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/no_sync.h"
#endif

using namespace ampctl;
using amp::GradScaler;
using test::Net;
using test::OptimizerAdapter;

namespace {

constexpr double kLr = 0.5;
constexpr double kInitScale = 128.0;

// A net with its optimizer. Powers of two as scales: in float32 scaled and unscaled runs then agree to
// rounding.
struct Run {
  Run(c10::Device device, bool enabled, bool fused)
      : net(device),
        optimizer(optim::make_sgd(net.groups(), {}, fused)),
        adapter(*optimizer, kLr, device),
        scaler({.init_scale = kInitScale, .growth_interval = 1, .enabled = enabled}) {}

  at::Tensor loss(const test::Sample& sample) const {
    return at::mse_loss(net.forward(sample.input), sample.target);
  }
  void backward(const at::Tensor& value) { scaler.scale(value).backward(); }

  Net net;
  std::unique_ptr<optim::Optimizer> optimizer;
  OptimizerAdapter adapter;
  GradScaler scaler;
};

// Runs `iteration` on four samples, control and scaled, fused and unfused, and compares the parameters.
void compare(c10::Device device, const std::function<void(Run&, const test::Sample&, int)>& iteration,
             double expected_scale, double tolerance = 1e-6) {
  const auto data = test::samples(device);
  Run control(device, /*enabled=*/false, /*fused=*/false);
  for (int i = 0; i < 4; ++i) iteration(control, data[static_cast<size_t>(i)], i);
  for (const bool fused : {false, true}) {
    INFO("fused " << fused);
    Run scaled(device, /*enabled=*/true, fused);
    for (int i = 0; i < 4; ++i) iteration(scaled, data[static_cast<size_t>(i)], i);
    CHECK(test::max_difference(scaled.net.params, control.net.params) < tolerance);
    CHECK(scaled.scaler.get_scale() == expected_scale);
  }
}

void check_autocast_run(c10::Device device) {
  const int skipped = 2;
  compare(
      device,
      [&](Run& run, const test::Sample& sample, int i) {
        run.optimizer->zero_grad();
        const bool scaled = run.scaler.is_enabled();
        at::Tensor loss;
        {
          const amp::Autocast autocast(device.type(), at::kHalf, scaled);
          loss = at::mse_loss(run.net.forward(sample.input), sample.target);
        }
        run.backward(loss);
        if (i == skipped) {
          if (!scaled) return;
          run.net.params[2].mutable_grad()[3][3].fill_(INFINITY);
        }
        run.scaler.step(run.adapter);
        run.scaler.update();
      },
      kInitScale * std::pow(2.0, 3) * 0.5, 1e-3);
}

void check_clipping(c10::Device device) {
  const double max_norm = 0.2;  // below every step's norm: an unscaling too many or too few shows
  compare(
      device,
      [&](Run& run, const test::Sample& sample, int) {
        run.optimizer->zero_grad();
        run.backward(run.loss(sample));
        run.scaler.unscale_(run.adapter);
        const at::Tensor norm = optim::grad_norm(run.optimizer->gradients(), {});
        CHECK(norm.item<double>() > max_norm);
        optim::scale_(run.optimizer->gradients(), optim::clip_coefficient(norm, max_norm));
        run.scaler.step(run.adapter);
        run.scaler.update();
      },
      kInitScale * 16);
}

void check_gradient_penalty(c10::Device device) {
  compare(
      device,
      [&](Run& run, const test::Sample& sample, int) {
        run.optimizer->zero_grad();
        at::Tensor loss = run.loss(sample);
        const auto grads =
            torch::autograd::grad({run.scaler.scale(loss)}, run.net.params, {}, {}, /*create_graph=*/true);
        at::Tensor penalty = at::zeros({}, at::TensorOptions(device));
        const double inv_scale = 1.0 / run.scaler.get_scale();
        for (const auto& grad : grads) penalty = penalty + (grad * inv_scale).pow(2).sum();
        run.backward(loss + penalty.sqrt());
        run.scaler.step(run.adapter);
        run.scaler.update();
      },
      kInitScale * 16, 1e-5);
}

void check_accumulation(c10::Device device) {
  const int micro_steps = 2;
  compare(
      device,
      [&](Run& run, const test::Sample& sample, int i) {
        const double scale_before = run.scaler.get_scale();
        run.backward(run.loss(sample) / micro_steps);
        CHECK(run.scaler.get_scale() == scale_before);
        if ((i + 1) % micro_steps != 0) return;
        run.scaler.step(run.adapter);
        run.scaler.update();
        run.optimizer->zero_grad();
      },
      kInitScale * 4);
}

void check_two_optimizers(c10::Device device) {
  const auto data = test::samples(device);
  for (const bool fused : {false, true}) {
    INFO("fused " << fused);
    Net net0(device);
    Net net1(device);
    auto optimizer0 = optim::make_sgd(net0.groups(), {}, fused);
    auto optimizer1 = optim::make_sgd(net1.groups(), {}, fused);
    OptimizerAdapter adapter0(*optimizer0, kLr, device);
    OptimizerAdapter adapter1(*optimizer1, kLr, device);
    GradScaler scaler({.init_scale = kInitScale, .growth_interval = 1});
    std::vector<at::Tensor> before0;
    std::vector<at::Tensor> before1;
    for (size_t i = 0; i < net0.params.size(); ++i) {
      before0.push_back(net0.params[i].detach().clone());
      before1.push_back(net1.params[i].detach().clone());
    }
    scaler.scale(at::mse_loss(net0.forward(data[0].input), data[0].target)).backward();
    scaler.scale(at::mse_loss(net1.forward(data[1].input), data[1].target)).backward();
    net1.params[0].mutable_grad()[0][0].fill_(NAN);
    scaler.step(adapter0);
    scaler.step(adapter1);
    scaler.update();
    CHECK(test::max_difference(net0.params, before0) > 0.0);
    CHECK(test::max_difference(net1.params, before1) == 0.0);
    CHECK(scaler.get_scale() == kInitScale * 0.5);
  }
}

void check_invalidated_gradients(c10::Device device) {
  const auto data = test::samples(device);
  for (const bool fused : {false, true}) {
    INFO("fused " << fused);
    Run run(device, /*enabled=*/true, fused);
    run.backward(run.loss(data[0]));
    run.scaler.unscale_(run.adapter);
    for (auto& param : run.net.params) param.mutable_grad().fill_(NAN);
    run.scaler.step(run.adapter);
    for (const auto& param : run.net.params) CHECK(at::isnan(param).all().item<bool>());
  }
}

void check_fused_equals_unfused(c10::Device device) {
  const auto data = test::samples(device);
  const auto adamw = [](const Net& net, bool fused) { return optim::make_adam(net.groups(), {}, fused); };
  const auto sgd = [](const Net& net, bool fused) {
    return optim::make_sgd(net.groups(), {.momentum = 0.9}, fused);
  };
  const std::vector<std::function<std::unique_ptr<optim::Optimizer>(const Net&, bool)>> makers{adamw, sgd};
  for (const auto& make : makers) {
    std::vector<Net> nets{Net(device), Net(device)};
    std::vector<std::vector<std::pair<std::string, at::Tensor>>> states;
    std::vector<double> scales;
    for (size_t fused = 0; fused < 2; ++fused) {
      const auto optimizer = make(nets[fused], fused == 1);
      OptimizerAdapter adapter(*optimizer, 0.05, device);
      GradScaler scaler({.init_scale = kInitScale, .growth_interval = 1});
      for (int i = 0; i < 12; ++i) {
        optimizer->zero_grad();
        const auto& sample = data[static_cast<size_t>(i) % data.size()];
        scaler.scale(at::mse_loss(nets[fused].forward(sample.input), sample.target)).backward();
        if (i == 0 || i == 5) nets[fused].params[1].mutable_grad()[0].fill_(INFINITY);
        scaler.step(adapter);
        scaler.update();
      }
      states.push_back(optimizer->named_state());
      scales.push_back(scaler.get_scale());
    }
    CHECK(scales[0] == scales[1]);
    CHECK(scales[0] == kInitScale * std::pow(2.0, 10 - 2));
    CHECK(test::max_difference(nets[0].params, nets[1].params) < 1e-5);
    REQUIRE(states[0].size() == states[1].size());
    for (size_t i = 0; i < states[0].size(); ++i) {
      INFO(states[0][i].first);
      CHECK(states[0][i].first == states[1][i].first);
      CHECK(at::allclose(states[0][i].second, states[1][i].second, 1e-5, 1e-6));
    }
  }
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(
    check_autocast_run,
    "Three clean steps and a skip in float16 end at scale 128 * 2^3 * 0.5 near the float32 run")
AMPCTL_DEVICE_TEST_CASE(check_clipping, "The clipping threshold applies to unscaled gradients")
AMPCTL_DEVICE_TEST_CASE(check_gradient_penalty, "A gradient penalty trains as without scaling")
AMPCTL_DEVICE_TEST_CASE(check_accumulation,
                        "Accumulated gradients train as without scaling, at one scale a window")
AMPCTL_DEVICE_TEST_CASE(check_two_optimizers,
                        "One optimizer skips, the other steps, and the shared scale backs off")
AMPCTL_DEVICE_TEST_CASE(check_invalidated_gradients,
                        "Gradients made invalid between unscale_ and step do reach the parameters")
AMPCTL_DEVICE_TEST_CASE(
    check_fused_equals_unfused,
    "Fused and unfused optimizers end with the same parameters, state and scale under a scaler")

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("A scaled fused step reads nothing on the host", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const auto data = test::samples(at::kCUDA);
  Run run(c10::Device(at::kCUDA, 0), /*enabled=*/true, /*fused=*/true);
  {
    const test::NoSync no_sync;
    for (const auto& sample : data) {
      run.optimizer->zero_grad();
      at::Tensor loss;
      {
        const amp::Autocast autocast(at::kCUDA, at::kHalf);
        loss = at::mse_loss(run.net.forward(sample.input), sample.target);
      }
      run.backward(loss);
      run.scaler.unscale_(run.adapter);
      const at::Tensor norm = optim::grad_norm(run.optimizer->gradients(), {});
      optim::scale_(run.optimizer->gradients(), optim::clip_coefficient(norm, 1.0));
      optim::clip_grad_value_(run.optimizer->gradients(), 0.5);
      run.scaler.step(run.adapter);
      run.scaler.update();
    }
  }
  CHECK(run.scaler.get_scale() == kInitScale * 16);
}
#endif
