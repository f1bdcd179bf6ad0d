#include "config_source.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "config/load.h"

namespace ampctl::cli {
namespace fs = std::filesystem;

config::ExperimentConfig load(const ConfigSource& source) {
  if (source.files.empty()) {
    throw usage_error(
        "no configuration given: name an experiment file with -c, for example -c configs/quickstart.yaml");
  }
  return config::load({source.files, source.overrides});
}

bool is_override(const std::string& word) {
  const auto equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  const auto is_key = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  };
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), is_key) &&
         word.front() != '.' && word.front() != '-';
}

std::string text_override(const std::string& key, const std::string& value) {
  std::string quoted = key + "='";
  for (const char c : value) {
    quoted += c;
    if (c == '\'') quoted += c;
  }
  return quoted + "'";
}

std::string config_file(const std::string& path) {
  constexpr const char* kRunConfig = "config.yaml";
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const fs::path file = fs::path(path) / kRunConfig;
  if (!fs::is_regular_file(file, ignored)) {
    throw usage_error(path + " holds no " + kRunConfig +
                      ": expected the folder of a run (the `output` of its configuration)");
  }
  return file.string();
}

}  // namespace ampctl::cli
