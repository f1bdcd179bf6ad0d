// String matchers by their Catch2 3 names, also with 2.13.
#pragma once

#include <string>

#include "support/catch.h"

namespace ampctl::test {

#if __has_include(<catch2/catch_all.hpp>)
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
#else
// NOLINTBEGIN(readability-identifier-naming): Catch2 3's names
inline auto ContainsSubstring(const std::string& part) { return Catch::Contains(part); }
inline auto StartsWith(const std::string& part) { return Catch::StartsWith(part); }
// NOLINTEND(readability-identifier-naming)
#endif

}  // namespace ampctl::test
