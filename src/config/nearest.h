// The known word that a mistyped one was probably meant to be.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ampctl::config {

/// The closest of `known` by edits (insert, delete, replace, swap neighbours; capitals and -/_ do not count),
/// if it is close enough to be meant.
std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace ampctl::config
