// ${VAR} and ${VAR:default} in the values of a file.
#pragma once

#include "config/yaml_tree.h"

namespace ampctl::config {

/// Replaces the variables in every scalar below `node`; `$${` stands for a literal `${`. Values are not
/// looked at again. A variable that is not set and has no default is a problem at the scalar's place; a plain
/// scalar that becomes empty is null.
void interpolate(Node& node, Problems& problems);

}  // namespace ampctl::config
