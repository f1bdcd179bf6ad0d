#include "nn/layer_tree.h"

#include <fnmatch.h>

#include "base/error.h"
#include "config/nearest.h"
#include "nn/batch_norm.h"

namespace ampctl::nn {
namespace {

Error unmatched_pattern(const std::string& pattern, const Layer& root,
                        const std::vector<std::string>& names) {
  std::string message = "amp.fp32_modules: no layer matches '" + pattern + "'";
  if (const auto near = config::nearest(pattern, names)) message += "; did you mean '" + *near + "'?";
  message += " The model's outermost layers are:";
  for (const auto& name : root.named_children().keys()) message += " " + name;
  return usage_error(message + ". Patterns are shell globs over dotted names, such as 'layer4.*'.");
}

}  // namespace

void force_float32_modules(Layer& root, const std::vector<std::string>& patterns) {
  const auto modules = root.named_modules(/*name_prefix=*/"", /*include_self=*/false);
  for (const auto& pattern : patterns) {
    bool matched = false;
    for (const auto& module : modules) {
      auto* layer = dynamic_cast<Layer*>(module.value().get());
      if (layer == nullptr || fnmatch(pattern.c_str(), module.key().c_str(), 0) != 0) continue;
      layer->set_force_float32(true);
      matched = true;
    }
    if (!matched) throw unmatched_pattern(pattern, root, modules.keys());
  }
}

void set_fused(Layer& root, bool value) {
  root.apply([value](torch::nn::Module& module) {
    if (auto* layer = dynamic_cast<Layer*>(&module)) layer->set_fused(value);
  });
}

std::vector<std::string> norm_parameter_names(const Layer& root) {
  std::vector<std::string> names;
  const auto append = [&names](const std::string& prefix, const torch::nn::Module& module) {
    const auto* layer = dynamic_cast<const Layer*>(&module);
    if (layer == nullptr || !layer->is_norm()) return;
    for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
      names.push_back(prefix + parameter.key());
    }
  };
  append("", root);
  for (const auto& module : root.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    append(module.key() + ".", *module.value());
  }
  return names;
}

int64_t convert_sync_batch_norm(Layer& root, const SumOverRanks& sum_over_ranks) {
  int64_t converted = 0;
  root.apply([&](torch::nn::Module& module) {
    auto* norm = dynamic_cast<BatchNorm2d*>(&module);
    if (norm == nullptr) return;
    norm->set_sum_over_ranks(sum_over_ranks);
    ++converted;
  });
  return converted;
}

void to_channels_last(Layer& root) {
  const auto convert = [](at::Tensor& tensor) {
    constexpr int64_t kImageDims = 4;
    if (tensor.dim() != kImageDims) return;
    tensor.set_data(
        tensor.to(tensor.options(), /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::ChannelsLast));
  };
  for (auto& parameter : root.parameters()) convert(parameter);
  for (auto& buffer : root.buffers()) convert(buffer);
}

}  // namespace ampctl::nn
