// Short measurements of a small model.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "e2e/programs.h"

namespace ampctl::test {

using Json = nlohmann::json;

/// A folder with small.yaml (programs.h) and measurements of it.
class BenchRun {
 public:
  BenchRun();
  [[nodiscard]] const std::filesystem::path& folder() const { return dir_.path(); }
  [[nodiscard]] std::string config() const { return (folder() / "small.yaml").string(); }
  /// `ampctl bench -c small.yaml` with one block of two steps and further arguments.
  [[nodiscard]] ProcessResult run(std::vector<std::string> arguments,
                                  const std::vector<std::string>& env = {}) const;
  /// The same with --json; parsed.
  [[nodiscard]] Json json(std::vector<std::string> arguments) const;

 private:
  TempDir dir_;
};

}  // namespace ampctl::test
