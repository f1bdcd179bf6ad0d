// Files, the files they extend and overrides, laid over each other into one tree.
#pragma once

#include "config/load.h"
#include "config/yaml_tree.h"

namespace ampctl::config {

struct LayeredTree {
  Node root;             ///< a map
  bool complete = true;  ///< false: a source could not be read or parsed, so that anything may be missing
};

/// Later sources win key by key; lists and single values are replaced as a whole. Every node keeps its place
/// and the rank of its source.
LayeredTree merged_layers(const LoadRequest& request, Problems& problems);

/// One text with variables replaced; it cannot extend files.
LayeredTree single_layer(const std::string& text, const std::string& name, Problems& problems);

}  // namespace ampctl::config
