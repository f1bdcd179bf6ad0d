// One YAML value into one C++ value, or the reason why not.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/rule.h"
#include "config/yaml_tree.h"

namespace ampctl::config {

/// Each returns true and sets `value`, or adds "key: expected ..., found ..." to `problems`.
struct ValueReader {
  const std::string& key;
  const Rule& rule;
  Problems& problems;

  bool read(const Node& node, bool& value) const;
  bool read(const Node& node, int64_t& value) const;
  bool read(const Node& node, double& value) const;
  bool read(const Node& node, std::string& value) const;
  bool read(const Node& node, std::array<double, 2>& value) const;

  template <class T>
  bool read(const Node& node, std::optional<T>& value) const {
    const bool is_null =
        node.kind == Node::Kind::null ||
        (node.kind == Node::Kind::scalar && !rule.null_word.empty() && node.text == rule.null_word);
    if (is_null) {
      value.reset();
      return true;
    }
    T inner{};
    if (!read(node, inner)) return false;
    value = std::move(inner);
    return true;
  }

  template <class T>
  bool read(const Node& node, std::vector<T>& value) const {
    if (node.kind != Node::Kind::sequence) return refuse(node, "a list");
    std::vector<T> result(node.items.size());
    bool good = true;
    for (size_t i = 0; i < result.size(); ++i) good = read(node.items[i], result[i]) && good;
    if (good) value = std::move(result);
    return good;
  }

 private:
  bool refuse(const Node& node, const std::string& expected, const std::string& hint = "") const;
};

}  // namespace ampctl::config
