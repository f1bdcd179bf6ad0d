// The optimizers beside torch.optim, run by tests/reference/optimizer_reference.py.
#include <fstream>
#include <map>
#include <set>

#include <ATen/ATen.h>

#include "optim/optimizer.h"
#include "support/devices.h"
#include "support/process.h"

using namespace ampctl;

namespace {

// As in the script.
constexpr int kSteps = 20;
const std::set<int> kSkips{0, 4, 5, 13};
const std::vector<std::pair<std::string, std::vector<int64_t>>> kShapes{
    {"a.weight", {3, 5}}, {"a.bias", {7}}, {"b.weight", {2, 3, 4, 4}}, {"b.bias", {1}}};
const std::string kMissing = "a.bias";

// Exact in every type: PyTorch's gradients divided by it are the unscaled ones, bit for bit.
constexpr double kGradScale = 1024.0;

at::Tensor values(at::IntArrayRef shape, int64_t step, int64_t salt, at::ScalarType dtype) {
  const int64_t numel = c10::multiply_integers(shape);
  const at::Tensor index = at::arange(numel, at::kLong);
  const at::Tensor numerator = (index * 7919 + step * 104729 + salt * 1299709).remainder(2001) - 1000;
  return (numerator.to(at::kDouble) / 1024.0).to(dtype).reshape(shape);
}

double lr(int steps_done) { return (16 - steps_done % 8) / 256.0; }

struct Configuration {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::map<std::string, at::Tensor> expected;
};

std::vector<Configuration> read_configurations() {
  static const std::string text = [] {
    const test::TempDir folder;
    const std::string file = (folder.path() / "optimizers.txt").string();
    const auto script = (test::source_dir() / "tests/reference/optimizer_reference.py").string();
    const auto result = test::run({test::python(), script, file});
    if (result.exit_code != 0) throw std::runtime_error(result.err);
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  std::istringstream in(text);
  std::vector<Configuration> result;
  Configuration configuration;
  std::string dtype;
  while (in >> configuration.name >> dtype) {
    configuration.dtype = dtype == "float64" ? at::kDouble : at::kFloat;
    configuration.expected.clear();
    for (std::string key; in >> key && key != "end";) {
      size_t numel = 0;
      in >> numel;
      std::vector<double> numbers(numel);
      for (auto& number : numbers) in >> number;
      configuration.expected[key] = at::tensor(numbers, at::kDouble);
    }
    result.push_back(configuration);
  }
  return result;
}

std::unique_ptr<optim::Optimizer> make(const std::string& name, std::vector<optim::ParamGroup> groups,
                                       bool fused) {
  static const std::map<std::string, optim::SgdOptions> sgd{
      {"sgd", {}},
      {"sgd_momentum", {.momentum = 0.9}},
      {"sgd_nesterov", {.momentum = 0.9, .nesterov = true}},
      {"sgd_dampening", {.momentum = 0.9, .dampening = 0.25}},
      {"sgd_momentum_missing", {.momentum = 0.9}}};
  static const std::map<std::string, optim::AdamOptions> adam{
      {"adam", {.decoupled_weight_decay = false}},
      {"adam_amsgrad", {.beta1 = 0.8, .beta2 = 0.95, .amsgrad = true, .decoupled_weight_decay = false}},
      {"adamw", {.beta1 = 0.9, .beta2 = 0.98, .eps = 1e-6}},
      {"adamw_amsgrad", {.amsgrad = true}}};
  const auto found = sgd.find(name);
  return found != sgd.end() ? optim::make_sgd(std::move(groups), found->second, fused)
                            : optim::make_adam(std::move(groups), adam.at(name), fused);
}

struct Result {
  std::map<std::string, at::Tensor> tensors;
};

Result train(const Configuration& configuration, c10::Device device, bool fused, bool scaled) {
  // Biases decay apart from weights; one weight is channels_last, as convolutions are on GPUs.
  std::vector<optim::ParamGroup> groups{{{}, {}, 0.0625}, {{}, {}, 0.0}};
  Result result;
  int64_t salt = 0;
  for (const auto& [name, shape] : kShapes) {
    at::Tensor param = values(shape, 0, salt++, configuration.dtype).to(device);
    if (shape.size() == 4) param = param.contiguous(at::MemoryFormat::ChannelsLast);
    param.requires_grad_();
    auto& group = groups[name.find("bias") == std::string::npos ? 0 : 1];
    group.names.push_back(name);
    group.params.push_back(param);
    result.tensors[name] = param;
  }
  const auto optimizer = make(configuration.name, groups, fused);
  const auto scalar = [&](double value) {
    return at::full({}, value, at::TensorOptions(device).dtype(at::kFloat));
  };
  const bool missing = configuration.name.find("_missing") != std::string::npos;
  int done = 0;
  for (int step = 0; step < kSteps; ++step) {
    const bool skip = kSkips.count(step) != 0;
    salt = 10;
    for (const auto& [name, shape] : kShapes) {
      auto& grad = result.tensors[name].mutable_grad();
      grad = values(shape, step + 1, salt++, configuration.dtype).to(device);
      if (scaled) grad.mul_(kGradScale);
      if (skip) grad.fill_(INFINITY);
      if (missing && name == kMissing && step % 2 == 1) grad.reset();
    }
    optimizer->step({scalar(lr(done)), scalar(done + 1), scaled ? scalar(kGradScale) : at::Tensor(),
                     scalar(skip ? 1.0 : 0.0)});
    if (!skip) ++done;
  }
  for (const auto& [name, state] : optimizer->named_state()) result.tensors[name] = state;
  return result;
}

void check_against_pytorch(c10::Device device) {
  if (!test::python_has({"torch"})) return test::skip("Python has no torch");
  const auto configurations = read_configurations();
  CHECK(configurations.size() == 18);
  for (const auto& configuration : configurations) {
    // float32: 16 updates of a few rounding errors each, in another order of operations.
    const double tolerance = configuration.dtype == at::kDouble ? 1e-12 : 1e-5;
    for (const bool fused : {false, true}) {
      for (const bool scaled : {false, true}) {
        const Result result = train(configuration, device, fused, scaled);
        CHECK(result.tensors.size() == configuration.expected.size());
        for (const auto& [name, expected] : configuration.expected) {
          INFO(configuration.name << " " << configuration.dtype << " fused " << fused << " scaled " << scaled
                                  << ": " << name);
          REQUIRE(result.tensors.count(name) == 1);
          const at::Tensor actual = result.tensors.at(name).detach().cpu().to(at::kDouble).reshape({-1});
          CHECK((actual - expected).abs().max().item<double>() < tolerance);
        }
      }
    }
  }
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_against_pytorch,
                        "Parameters and state equal torch.optim's after 20 steps with skips in between")
