// Made-up data in place of an experiment's own.
#pragma once

#include <cstdint>

#include "config/experiment_config.h"

namespace ampctl::cli {

/// Puts made-up images of the same size and as many classes in place of the training data, one global batch
/// of `world_size` processes. Data whose size the configuration tells (transforms that crop,
/// model.num_classes) need not be there. Throws a usage error when the images are not square, and what
/// listing the data throws.
[[nodiscard]] config::ExperimentConfig with_synthetic_data(config::ExperimentConfig config,
                                                           int64_t world_size);

}  // namespace ampctl::cli
