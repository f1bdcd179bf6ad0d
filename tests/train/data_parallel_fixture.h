// Models, micro-batches and the step that replicas run, for tests of data_parallel.
#pragma once

#include <string>

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "amp/autocast.h"
#include "data/batch.h"
#include "model/models.h"
#include "nn/layer.h"
#include "support/catch.h"
#include "task/classification.h"

namespace ampctl::test {

constexpr int64_t kParallelClasses = 5;
constexpr double kSameSums = 1e-6;  // relative, float32

inline nn::LayerPtr make_image_model(const std::string& name, uint64_t seed = 1) {
  at::manual_seed(seed);
  config::ModelConfig config;
  config.name = name;
  config.hidden_sizes = {16};
  const int64_t channels = name == "resnet18" ? 3 : 1;
  return model::make_model(config, {channels, 16, 16}, kParallelClasses);
}

inline data::Batch make_image_batch(int64_t size, int64_t channels = 1) {
  data::Batch batch;
  batch.images = at::randn({size, channels, 16, 16});
  batch.targets = at::randint(kParallelClasses, {size}, at::kLong);
  batch.size = size;
  return batch;
}

/// One part on one replica, as the training step does it.
struct Body {
  double weight = 1;
  bool autocast = false;

  at::Tensor operator()(nn::Layer& model, const data::Batch& part, const at::Tensor& scale) const {
    at::Tensor loss;
    {
      const amp::Autocast region(part.images.device().type(), at::kBFloat16, autocast);
      loss = task::loss_sum(model(part.images), part.targets, {});
    }
    const at::Tensor weighted = loss * weight;
    (scale.defined() ? weighted * scale : weighted).backward();
    return loss.detach();
  }
};

inline void expect_close(const at::Tensor& found, const at::Tensor& expected, double tolerance = kSameSums) {
  REQUIRE(found.defined());
  CHECK((found - expected).norm().item<double>() <= tolerance * expected.norm().item<double>());
}

inline void expect_same_gradients(const nn::Layer& found, const nn::Layer& expected,
                                  double tolerance = kSameSums) {
  const auto parameters = found.named_parameters();
  for (const auto& item : expected.named_parameters()) {
    INFO(item.key());
    expect_close(parameters[item.key()].grad(), item.value().grad(), tolerance);
  }
}

}  // namespace ampctl::test
