// Size of an image after its transforms, worked out before any image is read.
#pragma once

#include <string>
#include <vector>

#include "config/run_plan.h"

namespace ampctl::config {

struct InputSize {
  int64_t height = 0;  // pixels; 0: not known
  int64_t width = 0;
};

/// `key` names the transforms list in problems: an image too small for a crop, a wrong number of channels, or
/// images of different sizes that no transform brings to one size.
InputSize input_size(const DatasetFacts& images, const std::vector<TransformConfig>& transforms,
                     const std::string& key, std::vector<std::string>& problems);

}  // namespace ampctl::config
