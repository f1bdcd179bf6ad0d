#include "model/models.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "config/nearest.h"
#include "model/lenet.h"
#include "model/mlp.h"
#include "model/resnet.h"
#include "nn/layer_tree.h"

namespace ampctl::model {
namespace {

struct Entry {
  std::string_view name;
  nn::LayerPtr (*make)(const config::ModelConfig&, const InputShape&, int64_t num_classes);
};

nn::LayerPtr mlp(const config::ModelConfig& config, const InputShape& input, int64_t num_classes) {
  return make_mlp({.hidden_sizes = config.hidden_sizes, .dropout = config.dropout}, input, num_classes);
}

nn::LayerPtr lenet(const config::ModelConfig& /*config*/, const InputShape& input, int64_t num_classes) {
  return make_lenet(input, num_classes);
}

template <ResidualKind kind, int64_t... blocks>
nn::LayerPtr resnet(const config::ModelConfig& config, const InputShape& input, int64_t num_classes) {
  return make_resnet({.kind = kind,
                      .blocks = {blocks...},
                      .in_channels = input.channels,
                      .zero_init_residual = config.zero_init_residual},
                     num_classes);
}

constexpr std::array kModels{
    Entry{"mlp", mlp},
    Entry{"lenet", lenet},
    Entry{"resnet18", resnet<ResidualKind::basic, 2, 2, 2, 2>},
    Entry{"resnet34", resnet<ResidualKind::basic, 3, 4, 6, 3>},
    Entry{"resnet50", resnet<ResidualKind::bottleneck, 3, 4, 6, 3>},
    Entry{"resnet101", resnet<ResidualKind::bottleneck, 3, 4, 23, 3>},
    Entry{"resnet152", resnet<ResidualKind::bottleneck, 3, 8, 36, 3>},
};

Error unknown_model(const std::string& name) {
  std::string message = "model.name: unknown model '" + name + "'";
  if (const auto near = config::nearest(name, model_names())) message += ", did you mean '" + *near + "'?";
  message += " Known models:";
  for (const auto& known : model_names()) message += " " + known;
  return usage_error(message);
}

void require_positive(const char* what, int64_t value) {
  if (value < 1) {
    throw usage_error(std::string("model: expected at least one ") + what + ", found " +
                      std::to_string(value));
  }
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  names.reserve(kModels.size());
  for (const auto& entry : kModels) names.emplace_back(entry.name);
  return names;
}

nn::LayerPtr make_model(const config::ModelConfig& config, const InputShape& input, int64_t num_classes) {
  const auto* entry = std::find_if(kModels.begin(), kModels.end(),
                                   [&](const Entry& candidate) { return candidate.name == config.name; });
  if (entry == kModels.end()) {
    throw unknown_model(config.name);
  }
  require_positive("class", num_classes);
  require_positive("channel", input.channels);
  require_positive("pixel of height", input.height);
  require_positive("pixel of width", input.width);
  nn::LayerPtr model = entry->make(config, input, num_classes);
  nn::set_fused(*model, config.fused);
  return model;
}

}  // namespace ampctl::model
