#include "nn/layer_tree.h"

#include <algorithm>

#include <fnmatch.h>

#include "base/error.h"
#include "config/nearest.h"
#include "nn/batch_norm.h"

namespace ampctl::nn {
namespace {

Error unmatched_pattern(const char* key, const std::string& pattern, const Layer& root,
                        const std::vector<std::string>& names) {
  std::string message = std::string(key) + ": no layer matches '" + pattern + "'";
  if (const auto near = config::nearest(pattern, names)) message += "; did you mean '" + *near + "'?";
  message += " The model's outermost layers are:";
  for (const auto& name : root.named_children().keys()) message += " " + name;
  return usage_error(message + ". Patterns are shell globs over dotted names, such as 'layer4.*'.");
}

/// Calls `mark` for every layer below `root` that a pattern matches; `key` is where the patterns stand.
template <class Mark>
void mark_matching(Layer& root, const char* key, const std::vector<std::string>& patterns, Mark mark) {
  const auto modules = root.named_modules(/*name_prefix=*/"", /*include_self=*/false);
  for (const auto& pattern : patterns) {
    bool matched = false;
    for (const auto& module : modules) {
      auto* layer = dynamic_cast<Layer*>(module.value().get());
      if (layer == nullptr || fnmatch(pattern.c_str(), module.key().c_str(), 0) != 0) continue;
      mark(*layer);
      matched = true;
    }
    if (!matched) throw unmatched_pattern(key, pattern, root, modules.keys());
  }
}

}  // namespace

void set_fused(Layer& root, bool value) {
  root.apply([value](torch::nn::Module& module) {
    if (auto* layer = dynamic_cast<Layer*>(&module)) layer->set_fused(value);
  });
}

void force_float32_modules(Layer& root, const std::vector<std::string>& patterns) {
  mark_matching(root, "amp.fp32_modules", patterns, [](Layer& layer) { layer.set_force_float32(true); });
}

void checkpoint_activations(Layer& root, const std::vector<std::string>& patterns) {
  mark_matching(root, "train.activation_checkpointing", patterns,
                [](Layer& layer) { layer.set_checkpoint_activations(true); });
}

bool draws_random_numbers_inside(const Layer& root) {
  const auto modules = root.modules(/*include_self=*/false);
  return root.draws_random_numbers() || std::ranges::any_of(modules, [](const auto& module) {
           const auto* layer = dynamic_cast<const Layer*>(module.get());
           return layer != nullptr && layer->draws_random_numbers();
         });
}

std::optional<std::string> capture_obstacle(const Layer& root) {
  for (const auto& module : root.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const auto* layer = dynamic_cast<const Layer*>(module.value().get());
    if (layer == nullptr || !layer->checkpoint_activations() || !draws_random_numbers_inside(*layer)) {
      continue;
    }
    return "layer '" + module.key() +
           "' under train.activation_checkpointing draws random numbers (dropout), which a CUDA graph cannot "
           "draw a second time";
  }
  return std::nullopt;
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
