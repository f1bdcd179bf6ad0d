#include <stdexcept>
#include <string>
#include <utility>

#include <ATen/autocast_mode.h>

#include "amp/autocast.h"
#include "base/error.h"
#include "nn/convolution.h"
#include "nn/layer_tree.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "nn/stateless.h"
#include "support/catch.h"

using namespace ampctl;

namespace {

/// Records what reaches it; optionally fails.
class Probe : public nn::Layer {
 public:
  bool fails = false;
  at::ScalarType seen = at::kByte;
  bool autocast = false;
  bool cache = false;

 protected:
  at::Tensor forward(const at::Tensor& input) override {
    seen = input.scalar_type();
    autocast = at::autocast::is_autocast_enabled(at::kCPU);
    cache = at::autocast::is_autocast_cache_enabled();
    if (fails) throw std::runtime_error("probe");
    return input;
  }
};

std::shared_ptr<nn::Sequential> sequential(std::vector<nn::LayerPtr> layers) {
  return std::make_shared<nn::Sequential>(std::move(layers));
}

std::string failure(nn::Layer& root, const std::string& pattern) {
  try {
    nn::force_float32_modules(root, {pattern});
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A layer runs in the surrounding autocast unless it is forced to float32") {
  Probe probe;
  const at::Tensor input = at::ones({2}, at::kBFloat16);
  {
    const amp::Autocast region(at::kCPU, at::kBFloat16);
    probe(input);
    CHECK(probe.seen == at::kBFloat16);
    CHECK(probe.autocast);

    probe.set_force_float32(true);
    CHECK(probe(input).scalar_type() == at::kFloat);
    CHECK(probe.seen == at::kFloat);
    CHECK_FALSE(probe.autocast);
    CHECK(at::autocast::is_autocast_enabled(at::kCPU));
    CHECK(at::autocast::get_autocast_dtype(at::kCPU) == at::kBFloat16);
  }
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_CASE("A forced layer casts float16 and bfloat16 and leaves float64 and integers") {
  Probe probe;
  probe.set_force_float32(true);
  for (const auto& [given, expected] :
       {std::pair{at::kHalf, at::kFloat}, std::pair{at::kBFloat16, at::kFloat},
        std::pair{at::kFloat, at::kFloat}, std::pair{at::kDouble, at::kDouble},
        std::pair{at::kLong, at::kLong}}) {
    probe(at::ones({2}, given));
    CHECK(probe.seen == expected);
  }
}

TEST_CASE("A forced layer keeps the surrounding cast cache setting and restores everything when it throws") {
  Probe probe;
  probe.set_force_float32(true);
  probe.fails = true;
  const amp::Autocast region(at::kCPU, at::kHalf, /*enabled=*/true, /*cache_enabled=*/false);
  CHECK_THROWS(probe(at::ones({2})));
  CHECK_FALSE(probe.cache);
  CHECK(at::autocast::is_autocast_enabled(at::kCPU));
  CHECK(at::autocast::get_autocast_dtype(at::kCPU) == at::kHalf);
  CHECK_FALSE(at::autocast::is_autocast_cache_enabled());
}

TEST_CASE("Gradients pass a forced layer in the types of its neighbours") {
  auto first = std::make_shared<nn::Linear>(4, 4);
  auto second = std::make_shared<nn::Linear>(4, 4);
  auto third = std::make_shared<nn::Linear>(4, 4);
  auto model = sequential({first, second, third});
  nn::force_float32_modules(*model, {"1"});

  const at::Tensor input = at::randn({3, 4}).requires_grad_();
  at::Tensor output;
  {
    const amp::Autocast region(at::kCPU, at::kBFloat16);
    const at::Tensor middle = (*second)((*first)(input));
    CHECK(middle.scalar_type() == at::kFloat);
    output = (*model)(input);
    CHECK(output.scalar_type() == at::kBFloat16);
  }
  output.sum().backward();
  for (const auto& parameter : model->named_parameters()) {
    INFO(parameter.key());
    REQUIRE(parameter.value().grad().defined());
    CHECK(parameter.value().grad().scalar_type() == at::kFloat);
    CHECK(parameter.value().grad().norm().item<float>() > 0.0F);
  }
  CHECK(input.grad().norm().item<float>() > 0.0F);
}

TEST_CASE("A pattern that names a container takes everything inside it out of autocast") {
  auto inside = std::make_shared<Probe>();
  auto after = std::make_shared<Probe>();
  auto model = sequential({sequential({inside}), after});
  nn::force_float32_modules(*model, {"0"});
  const amp::Autocast region(at::kCPU, at::kBFloat16);
  (*model)(at::ones({2}, at::kBFloat16));
  CHECK(inside->seen == at::kFloat);
  CHECK_FALSE(inside->autocast);
  CHECK(after->autocast);
}

TEST_CASE("Patterns are shell globs over dotted names, and each must match a layer") {
  auto model = sequential({sequential({std::make_shared<Probe>(), std::make_shared<Probe>()}),
                           sequential({std::make_shared<Probe>()}), std::make_shared<Probe>()});
  nn::force_float32_modules(*model, {"[01].0", "2"});
  std::vector<std::string> forced;
  for (const auto& module : model->named_modules("", false)) {
    if (dynamic_cast<const nn::Layer&>(*module.value()).force_float32()) forced.push_back(module.key());
  }
  CHECK(forced == std::vector<std::string>{"0.0", "1.0", "2"});

  const std::string message = failure(*model, "00.1");
  INFO(message);
  CHECK(message.find("no layer matches '00.1'") != std::string::npos);
  CHECK(message.find("did you mean '0.1'?") != std::string::npos);
  CHECK_FALSE(failure(*model, "").empty());
  CHECK(failure(*model, "*.1").empty());
}
