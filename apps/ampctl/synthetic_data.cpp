#include "synthetic_data.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "catalog/datasets.h"
#include "config/batch.h"
#include "config/input_size.h"

namespace ampctl::cli {
namespace {

constexpr int64_t kRgb = 3;

// Bytes drawn evenly, as numbers of zero mean and unit variance: what numbers hold decides how fast a card at
// its power limit computes.
config::TransformConfig unit_normalize() {
  constexpr double kMean = 0.5;
  constexpr double kDeviation = 0.288675;  // of even numbers in [0, 1]: 1 / sqrt(12)
  config::TransformConfig transform;
  transform.name = "normalize";
  transform.mean = {kMean};
  transform.std = {kDeviation};
  return transform;
}

void throw_first(const std::vector<std::string>& problems) {
  if (!problems.empty()) throw usage_error(problems.front());
}

// Photographs become RGB whatever their files hold, and their sizes differ; only their number is open.
bool needs_listing(const config::ExperimentConfig& config) {
  return config.data.train.format != "image_folder" || !config.model.num_classes;
}

config::DatasetFacts facts_of(const config::ExperimentConfig& config) {
  const catalog::Source& source = config.data.train;
  if (needs_listing(config)) return catalog::count({source, std::nullopt, std::nullopt}).train;
  config::DatasetFacts facts;
  facts.channels = kRgb;
  return facts;
}

}  // namespace

config::ExperimentConfig with_synthetic_data(config::ExperimentConfig config, int64_t world_size) {
  std::vector<std::string> problems;
  const config::BatchPlan batch = config::resolve_batch(config, world_size, problems);
  throw_first(problems);
  const config::DatasetFacts facts = facts_of(config);
  const config::InputSize size =
      config::input_size(facts, config.data.train.transforms, "data.train.transforms", problems);
  throw_first(problems);
  if (size.height != size.width) {
    throw usage_error("--synthetic: expected square images after data.train.transforms, found " +
                      std::to_string(size.height) + "x" + std::to_string(size.width) +
                      "; add a crop, or measure with the data itself");
  }
  config::DatasetConfig made_up;
  made_up.format = "synthetic";
  made_up.num_samples = batch.global;
  made_up.image_size = size.height;
  made_up.channels = facts.channels;
  made_up.num_classes = config.model.num_classes.value_or(facts.num_classes);
  made_up.transforms = {unit_normalize()};
  config.data.train = made_up;
  return config;
}

}  // namespace ampctl::cli
