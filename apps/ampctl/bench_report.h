// The findings of `ampctl bench` for people.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench_variants.h"

namespace ampctl::cli {

/// One variant's end: the worker's findings (their fields: docs/performance.md), or why there are none.
struct Measured {
  Variant variant;
  nlohmann::ordered_json result;  ///< null: it failed
  std::string error;
  int exit_code = 0;
};

/// All about one measurement, with the kernels that take the most time.
[[nodiscard]] std::string detailed_text(const nlohmann::ordered_json& result, std::size_t kernels);

/// A row a variant; speed and memory beside those of its baseline.
[[nodiscard]] std::string comparison_text(const std::vector<Measured>& all);

/// {"settings", "error", "exit_code", "result"}
[[nodiscard]] nlohmann::ordered_json to_json(const Measured& measured);

}  // namespace ampctl::cli
