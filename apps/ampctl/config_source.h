// Where a command's configuration comes from: files and overrides, as the command line gave them.
#pragma once

#include <string>
#include <vector>

#include "config/experiment_config.h"

namespace ampctl::cli {

struct ConfigSource {
  std::vector<std::string> files;
  std::vector<std::string> overrides;  ///< "dotted.key=value", in the order typed, shortcuts among them
};

/// Reads and checks it. Throws a usage error that lists every problem, or that asks for a file when there is
/// none.
[[nodiscard]] config::ExperimentConfig load(const ConfigSource& source);

/// True for "dotted.key=value".
[[nodiscard]] bool is_override(const std::string& word);

/// "key=value" with the value taken as a string, whatever YAML would make of it.
[[nodiscard]] std::string text_override(const std::string& key, const std::string& value);

/// The configuration file that a path stands for: itself, or config.yaml in a run's folder. Throws a usage
/// error when it does not exist.
[[nodiscard]] std::string config_file(const std::string& path);

}  // namespace ampctl::cli
