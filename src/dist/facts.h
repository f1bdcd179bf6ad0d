// Where ranks differ, as text.
#pragma once

#include <string>

#include "dist/consistency.h"
#include "dist/world.h"

namespace ampctl::dist {

/// Collective. A line for each fact that is not the same everywhere, each after a line break; "" for none.
/// The same text on every rank.
[[nodiscard]] std::string find_differences(const World& world, const Facts& facts);

}  // namespace ampctl::dist
