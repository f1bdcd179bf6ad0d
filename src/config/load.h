// From files and overrides to an ExperimentConfig, and back to text. Everything here is a visitor over the
// field descriptions in config/describe.h.
#pragma once

#include <string>
#include <vector>

#include "config/experiment_config.h"

namespace ampctl::config {

/// `files`: later wins over earlier, each may `extends:` others (relative to itself). `overrides`:
/// "dotted.key=value" in YAML syntax, winning over files. `${VAR}` and `${VAR:default}` read the environment.
/// Throws one usage error that lists every problem as `file:line:column: key: expected …, found … (did you
/// mean …?)`.
struct LoadRequest {
  std::vector<std::string> files;
  std::vector<std::string> overrides;
};
ExperimentConfig load(const LoadRequest& request);

/// The same from text in memory (`name` stands for the file in messages); used for the resolved
/// configuration.
ExperimentConfig load_text(const std::string& text, const std::string& name);

/// Complete YAML that load_text turns into an equal configuration; with `comments` each field's sentence
/// beside it.
std::string to_yaml(const ExperimentConfig& config, bool comments = false);

/// JSON Schema (draft 2020-12) of the experiment file, for editors.
std::string json_schema();

/// docs/configuration.md: a table a section.
std::string to_markdown();

/// One entry per field whose values differ.
struct FieldDifference {
  std::string key;   ///< dotted
  std::string left;  ///< as YAML
  std::string right;
};
std::vector<FieldDifference> diff(const ExperimentConfig& left, const ExperimentConfig& right);

/// Keys that may differ between a run and its continuation (epochs, steps, logging, workers, checkpoint
/// settings, output); dotted, or a section's name for all of it.
bool may_change_on_resume(const std::string& key);

}  // namespace ampctl::config
