// YAML text as a tree of plain values that know where they stand. Parsed with yaml-cpp's event parser, in
// bounded memory and time whatever the text.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/problems.h"

namespace ampctl::config {

/// Limits of one file. Beyond them it is refused.
inline constexpr size_t kMaxFileBytes = size_t{256} << 10U;
inline constexpr size_t kMaxDepth = 32;                    ///< lists and maps inside each other
inline constexpr size_t kMaxNodes = 10'000;                ///< values, aliases written out
inline constexpr size_t kMaxTextBytes = size_t{4} << 20U;  ///< text of all values, aliases written out

struct Entry;

struct Node {
  enum class Kind {
    null,
    scalar,
    sequence,
    map,
    invalid,  ///< reported already; whoever reads it stays silent
  };
  Kind kind = Kind::null;
  std::string text;  ///< scalar
  bool quoted = false;
  std::vector<Node> items;     ///< sequence
  std::vector<Entry> entries;  ///< map, in the order of the file, each key once
  Position where;
  int order = 0;  ///< rank of the source; a later one wins

  [[nodiscard]] const Entry* find(const std::string& key) const;
  [[nodiscard]] Entry* find(const std::string& key);
  /// "'text'", "a list", "a map" or "null", for messages.
  [[nodiscard]] std::string described() const;
};

struct Entry {
  std::string key;
  Position where;  ///< of the key
  Node value;
};

/// Where parsed text came from.
struct Source {
  std::shared_ptr<const std::string> name;
  int order = 0;
  bool has_lines = true;  ///< false: positions are the name alone
};

/// Parses one document. Merge keys and aliases are written out. What is wrong is added to `problems`; then
/// the result is an invalid node.
Node parse_yaml(const std::string& text, const Source& source, Problems& problems);

}  // namespace ampctl::config
