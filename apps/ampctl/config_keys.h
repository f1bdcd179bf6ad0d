// The configuration's fields as words for shell completion.
#pragma once

#include <string>
#include <vector>

namespace ampctl::cli {

struct ConfigKey {
  std::string key;                  ///< dotted
  std::vector<std::string> values;  ///< the values it can have, when they are few
};

/// Every field that a value can be given to, read from the JSON Schema.
[[nodiscard]] std::vector<ConfigKey> config_keys();

}  // namespace ampctl::cli
