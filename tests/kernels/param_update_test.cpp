#include "kernels/param_update.h"

#include <cmath>
#include <functional>
#include <limits>
#include <sstream>
#include <string>

#include <ATen/ATen.h>

#include "base/error.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/captured.h"
#include "support/no_sync.h"
#endif

using namespace ampctl;
using kernels::AdamOptions;
using kernels::SgdOptions;
using kernels::UpdateInputs;
using kernels::UpdateLists;

namespace {

// The CUDA kernel's unit of work, so that sizes around it are tried.
constexpr int64_t kChunk = 8192;
constexpr double kGradScale = 4096.0;

at::Tensor scalar(double value, c10::Device device) {
  return at::full({}, value, at::TensorOptions(device).dtype(at::kFloat));
}

at::Tensor random(at::IntArrayRef shape, c10::Device device) {
  static at::Generator generator = at::detail::createCPUGenerator(5);
  return at::randn(shape, generator, at::kFloat).to(device);
}

at::Tensor copy_of(const at::Tensor& param, size_t i) {
  if (i % 3 == 2) return {};
  return at::empty_like(param, i % 3 == 0 ? at::kHalf : at::kBFloat16).copy_(param);
}

/// Odd sizes, channels_last, nothing at all; copies of both types and none; decay that differs.
UpdateLists some_lists(size_t state_kinds, c10::Device device) {
  UpdateLists lists;
  lists.states.resize(state_kinds);
  const auto add = [&](const at::Tensor& param) {
    const size_t i = lists.params.size();
    lists.params.push_back(param);
    lists.grads.push_back(at::zeros_like(param));
    for (auto& kind : lists.states) kind.push_back(at::zeros_like(param));
    lists.copies.push_back(copy_of(param, i));
    lists.weight_decays.push_back(i % 2 == 0 ? 0.01 : 0.0);
  };
  for (const int64_t numel : {int64_t{1}, int64_t{3}, int64_t{4}, int64_t{1001}, int64_t{0}, kChunk - 1,
                              kChunk, kChunk + 1, 3 * kChunk + 2}) {
    add(random({numel}, device));
  }
  add(random({8, 5, 3, 3}, device).contiguous(at::MemoryFormat::ChannelsLast));
  add(random({16, 4}, device));
  return lists;
}

std::vector<at::Tensor> clones(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  result.reserve(tensors.size());
  for (const auto& tensor : tensors) result.push_back(tensor.defined() ? tensor.clone() : at::Tensor());
  return result;
}

UpdateLists clone(const UpdateLists& lists) {
  UpdateLists result{
      clones(lists.params), clones(lists.grads), {}, clones(lists.copies), lists.weight_decays};
  for (const auto& kind : lists.states) result.states.push_back(clones(kind));
  return result;
}

/// Empty where all values are the same bit for bit, NaNs being equal to NaNs; else where and by how much they
/// differ.
std::string difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor differs = a.eq(b).logical_or_(a.isnan().logical_and_(b.isnan())).logical_not_();
  const at::Tensor places = differs.reshape({-1}).nonzero();
  if (places.numel() == 0) return "";
  const auto first = places[0].item<int64_t>();
  std::ostringstream text;
  text << places.numel() << " of " << a.numel() << " differ, the first at " << first << ": " << std::hexfloat
       << a.reshape({-1})[first].item<double>() << " beside " << b.reshape({-1})[first].item<double>();
  return text.str();
}

void check_same(const at::Tensor& a, const at::Tensor& b) {
  const std::string found = difference(a, b);
  INFO(found);
  CHECK(found.empty());
}

void check_equal(const UpdateLists& a, const UpdateLists& b) {
  for (size_t i = 0; i < a.params.size(); ++i) {
    INFO("parameter " << i);
    check_same(a.params[i], b.params[i]);
    for (size_t kind = 0; kind < a.states.size(); ++kind) check_same(a.states[kind][i], b.states[kind][i]);
    if (a.copies[i].defined()) check_same(a.copies[i], b.copies[i]);
  }
}

// `tolerance`: absolute and relative, of values around 1; 0: bit for bit.
void check_close(const UpdateLists& a, const UpdateLists& b, double tolerance) {
  if (tolerance == 0.0) return check_equal(a, b);
  for (size_t i = 0; i < a.params.size(); ++i) {
    INFO("parameter " << i);
    CHECK(at::allclose(a.params[i], b.params[i], tolerance, tolerance, /*equal_nan=*/true));
    for (size_t kind = 0; kind < a.states.size(); ++kind) {
      CHECK(at::allclose(a.states[kind][i], b.states[kind][i], tolerance, tolerance, /*equal_nan=*/true));
    }
  }
}

void check_copies(const UpdateLists& lists) {
  for (size_t i = 0; i < lists.params.size(); ++i) {
    INFO("copy " << i);
    if (lists.copies[i].defined())
      check_same(lists.copies[i], lists.params[i].to(lists.copies[i].scalar_type()));
  }
}

// The gradients of both lists; those of `a` start anywhere in memory.
void set_grads(UpdateLists& a, UpdateLists& b, double factor) {
  for (size_t i = 0; i < a.params.size(); ++i) {
    const at::Tensor& param = a.params[i];
    const at::Tensor grad = random(param.sizes(), param.device()).mul_(factor);
    const auto offset = static_cast<int64_t>(i % 4);
    const at::Tensor memory = at::full({param.numel() + offset}, NAN, param.options());
    a.grads[i] = memory.as_strided(param.sizes(), param.strides(), offset).copy_(grad);
    b.grads[i] = at::empty_like(param).copy_(grad);
  }
}

struct Rule {
  std::string name;
  double rounding;  // by which one step may differ from PyTorch's on the GPU
  size_t state_kinds;
  std::function<void(const UpdateLists&, const UpdateInputs&)> update;
  std::function<void(const UpdateLists&, const UpdateInputs&)> reference;
};

// A unit in the last place of numbers up to 4.
constexpr double kRounding = 4.8e-7;

Rule sgd(const std::string& name, const SgdOptions& options) {
  return {name, kRounding, options.momentum == 0.0 ? size_t{0} : size_t{1},
          [options](const auto& lists, const auto& inputs) { kernels::sgd_update_(lists, options, inputs); },
          [options](const auto& lists, const auto& inputs) {
            kernels::sgd_update_reference_(lists, options, inputs);
          }};
}

Rule adam(const std::string& name, const AdamOptions& options) {
  return {name, options.decoupled_weight_decay ? 0.0 : kRounding, options.amsgrad ? size_t{3} : size_t{2},
          [options](const auto& lists, const auto& inputs) { kernels::adam_update_(lists, options, inputs); },
          [options](const auto& lists, const auto& inputs) {
            kernels::adam_update_reference_(lists, options, inputs);
          }};
}

std::vector<Rule> rules() {
  return {sgd("sgd", {}),
          sgd("sgd with momentum", {.momentum = 0.9}),
          sgd("nesterov", {.momentum = 0.9, .nesterov = true}),
          sgd("damped", {.momentum = 0.9, .dampening = 0.3}),
          adam("adam", {.decoupled_weight_decay = false}),
          adam("adamw", {.beta2 = 0.95}),
          adam("adam amsgrad", {.amsgrad = true, .decoupled_weight_decay = false}),
          adam("adamw amsgrad", {.amsgrad = true})};
}

UpdateInputs inputs(c10::Device device, int step, bool is_scaled = true, bool skip = false) {
  return {scalar(0.01 / step, device), scalar(step, device),
          is_scaled ? scalar(kGradScale, device) : at::Tensor(), scalar(skip ? 1.0 : 0.0, device)};
}

void check_two_hundred_steps(c10::Device device) {
  for (const Rule& rule : rules()) {
    for (const bool is_scaled : {false, true}) {
      INFO(rule.name << " scaled " << is_scaled);
      UpdateLists ours = some_lists(rule.state_kinds, device);
      UpdateLists theirs = clone(ours);
      for (int step = 1; step <= 200; ++step) {
        set_grads(ours, theirs, is_scaled ? kGradScale : 1.0);
        const UpdateInputs given = inputs(device, step, is_scaled);
        rule.update(ours, given);
        rule.reference(theirs, given);
        if (step % 50 == 1) check_copies(ours);
      }
      // Roundings of two hundred steps hardly ever point the same way.
      check_close(ours, theirs, 10 * rule.rounding);
      check_copies(ours);
    }
  }
}

void check_skips(c10::Device device) {
  for (const Rule& rule : rules()) {
    INFO(rule.name);
    UpdateLists lists = some_lists(rule.state_kinds, device);
    UpdateLists other = clone(lists);
    for (int step = 1; step <= 2; ++step) {
      const UpdateLists before = clone(lists);
      set_grads(lists, other, INFINITY);
      lists.grads[3].fill_(NAN);
      rule.update(lists, inputs(device, step, true, /*skip=*/true));
      check_equal(lists, before);
      set_grads(lists, other, 1.0);
      rule.update(lists, inputs(device, step));
      CHECK_FALSE(at::equal(lists.params[3], before.params[3]));
    }
  }
}

// Without found_inf nothing holds them up: they must go where PyTorch's go.
void check_nonfinite_values(c10::Device device) {
  for (const Rule& rule : rules()) {
    INFO(rule.name);
    UpdateLists ours = some_lists(rule.state_kinds, device);
    ours.params[5].fill_(1e6);  // more than float16 holds
    ours.params[6].fill_(1e-7);
    UpdateLists theirs = clone(ours);
    for (int step = 1; step <= 3; ++step) {
      set_grads(ours, theirs, 1.0);
      for (UpdateLists* lists : {&ours, &theirs}) {
        lists->grads[3][step].fill_(INFINITY);
        lists->grads[3][step + 10].fill_(NAN);
        lists->grads[3][step + 20].fill_(1e-42);
        lists->grads[3][step + 30].fill_(-std::numeric_limits<float>::max());
      }
      UpdateInputs given = inputs(device, step);
      given.found_inf = at::Tensor();
      rule.update(ours, given);
      rule.reference(theirs, given);
    }
    check_close(ours, theirs, 3 * rule.rounding);
    check_copies(ours);
  }
}

void check_many_parameters(c10::Device device) {
  // More than one launch of the CUDA kernel takes.
  UpdateLists ours;
  ours.states.resize(1);
  for (int64_t i = 0; i < 300; ++i) {
    const at::Tensor param = random({i % 37}, device);
    ours.params.push_back(param);
    ours.grads.push_back(at::zeros_like(param));
    ours.states[0].push_back(at::zeros_like(param));
    ours.copies.push_back(copy_of(param, static_cast<size_t>(i)));
    ours.weight_decays.push_back(i % 5 == 0 ? 0.1 : 0.0);
  }
  UpdateLists theirs = clone(ours);
  const Rule rule = sgd("sgd", {.momentum = 0.5});
  for (int step = 1; step <= 2; ++step) {
    set_grads(ours, theirs, 1.0);
    rule.update(ours, inputs(device, step));
    rule.reference(theirs, inputs(device, step));
  }
  check_close(ours, theirs, 2 * rule.rounding);
  check_copies(ours);
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_two_hundred_steps,
                        "Two hundred updates equal those of PyTorch's fused optimizers and copies follow",
                        "[long]")
AMPCTL_DEVICE_TEST_CASE(check_skips, "An update with found_inf changes no bit of parameters, state or copies")
AMPCTL_DEVICE_TEST_CASE(check_nonfinite_values,
                        "Infinite and NaN and tiny and huge gradients end where PyTorch's do")
AMPCTL_DEVICE_TEST_CASE(check_many_parameters,
                        "Three hundred parameters are updated and some of them are empty")

TEST_CASE("Lists that an update would misread are refused") {
  const auto refuses = [](const std::function<void(UpdateLists&)>& spoil) {
    UpdateLists lists = some_lists(1, at::kCPU);
    spoil(lists);
    CHECK_THROWS_AS(kernels::sgd_update_(lists, {.momentum = 0.9}, inputs(at::kCPU, 1)), Error);
  };
  refuses([](UpdateLists& lists) { lists.grads.pop_back(); });
  refuses([](UpdateLists& lists) { lists.states.clear(); });
  refuses([](UpdateLists& lists) { lists.grads[1] = at::zeros({4}); });
  refuses([](UpdateLists& lists) { lists.grads[1] = lists.grads[1].to(at::kHalf); });
  refuses([](UpdateLists& lists) { lists.states[0][9] = lists.states[0][9].contiguous(); });
  refuses([](UpdateLists& lists) { lists.copies[0] = at::zeros({1}); });
  refuses([](UpdateLists& lists) { lists.copies[9] = at::zeros({8, 5, 3, 3}, at::kHalf); });
  UpdateInputs no_lr = inputs(at::kCPU, 1);
  no_lr.lr = at::Tensor();
  CHECK_THROWS_AS(kernels::sgd_update_(some_lists(0, at::kCPU), {}, no_lr), Error);
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("Updates read nothing on the host and replay in a CUDA graph", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::Device device(at::kCUDA, 0);
  for (const Rule& rule : rules()) {
    INFO(rule.name);
    UpdateLists ours = some_lists(rule.state_kinds, device);
    UpdateLists theirs = clone(ours);
    const UpdateInputs given = inputs(device, 1);
    test::Captured graph([&] {
      const test::NoSync no_sync;
      CHECK_NOTHROW(rule.update(ours, given));
    });
    for (int step = 1; step <= 4; ++step) {
      const bool skip = step == 3;
      UpdateLists fresh = clone(ours);
      set_grads(fresh, theirs, kGradScale);
      for (size_t i = 0; i < ours.grads.size(); ++i) ours.grads[i].copy_(fresh.grads[i]);
      given.step.fill_(step);
      given.found_inf.fill_(skip ? 1.0 : 0.0);
      graph.replay();
      rule.reference(theirs, {given.lr.clone(), scalar(step, device), scalar(kGradScale, device),
                              scalar(skip ? 1.0 : 0.0, device)});
      check_close(ours, theirs, step * rule.rounding);
      check_copies(ours);
    }
  }
}
#endif
