// state.json of a checkpoint: everything that is not a tensor. Its fields are listed in
// docs/checkpoint-format.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "amp/grad_scaler.h"
#include "train/progress.h"

namespace ampctl::train {

struct SavedState {
  Progress progress;
  std::optional<amp::GradScalerState> scaler;  ///< nullopt: no scaler
  std::vector<std::string> class_names;
  std::string config;  ///< the resolved configuration, YAML
};

std::string to_json(const SavedState& state);

/// Reads a folder's state.json. Throws an environment error naming the file and the field that is missing or
/// wrong.
SavedState read_state(const std::filesystem::path& folder);

}  // namespace ampctl::train
