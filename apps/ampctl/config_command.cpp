#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/table.h"
#include "commands.h"
#include "config/load.h"
#include "output.h"
#include "style.h"

namespace ampctl::cli {
namespace {

config::ExperimentConfig load_one(const std::string& path) { return config::load({{config_file(path)}, {}}); }

}  // namespace

int run_config_show(const ConfigShowOptions& options) {
  print(config::to_yaml(load(options.config), options.comments));
  return 0;
}

int run_config_validate(const ConfigSource& config) {
  static_cast<void>(load(config));
  const Style style(STDOUT_FILENO);
  std::string text;
  for (const auto& file : config.files) text += (text.empty() ? "" : " + ") + file;
  print(text + ": " + style.green("valid") + "\n");
  return 0;
}

int run_config_diff(const ConfigDiffOptions& options) {
  const auto differences = config::diff(load_one(options.left), load_one(options.right));
  if (options.json) {
    auto array = nlohmann::ordered_json::array();
    for (const auto& difference : differences) {
      array.push_back({{"key", difference.key}, {"left", difference.left}, {"right", difference.right}});
    }
    print(array.dump(2) + "\n");
    return 0;
  }
  if (differences.empty()) {
    print("no differences\n");
    return 0;
  }
  Table table;
  table.add({"key", options.left, options.right});
  for (const auto& difference : differences) table.add({difference.key, difference.left, difference.right});
  print(table.str());
  return 0;
}

int run_config_schema() {
  print(config::json_schema());
  return 0;
}

int run_config_docs() {
  print(config::to_markdown());
  return 0;
}

}  // namespace ampctl::cli
