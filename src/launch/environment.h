// Environment variables as plain values, so that what is read from them can be tested.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ampctl::launch {

using Variables = std::map<std::string, std::string>;

/// This process's environment.
[[nodiscard]] Variables process_variables();

/// A variable's text; null when it is not set, or empty, which launchers take for the same.
[[nodiscard]] const std::string* find(const Variables& variables, const std::string& name);

/// A variable's whole number of at least 0; nothing when it is not set. Anything else is a usage error that
/// names the variable and ends with `remedy`.
[[nodiscard]] std::optional<int64_t> number(const Variables& variables, const std::string& name,
                                            const std::string& remedy = "");

}  // namespace ampctl::launch
