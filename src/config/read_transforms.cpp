#include "config/nearest.h"
#include "config/read.h"

namespace ampctl::config {
namespace {

// `name`, `name: value` and `name: {option: value}` all become a name and a map of options.
struct NamedOptions {
  std::string name;
  Position where;
  Node options;
};

bool refuse(const Node& node, const Position& where, const std::string& message, Problems& problems) {
  problems.add(node.order, where, message);
  return false;
}

bool split_entry(const Node& node, const std::string& key, NamedOptions& result, Problems& problems) {
  result.options.kind = Node::Kind::map;
  result.options.where = node.where;
  result.options.order = node.order;
  result.where = node.where;
  if (node.kind == Node::Kind::scalar) {
    result.name = node.text;
    return true;
  }
  if (node.kind == Node::Kind::invalid) return false;
  if (node.kind != Node::Kind::map || node.entries.size() != 1) {
    const std::string found = node.kind == Node::Kind::map
                                  ? "a map of " + std::to_string(node.entries.size()) + " entries"
                                  : node.described();
    return refuse(node, node.where,
                  key + ": expected a name, `name: value` or `name: {option: value}`, found " + found,
                  problems);
  }
  const Entry& entry = node.entries.front();
  result.name = entry.key;
  result.where = entry.where;
  if (entry.value.kind == Node::Kind::map) {
    result.options = entry.value;
  } else if (entry.value.kind != Node::Kind::null) {
    result.options.entries.push_back({"", entry.where, entry.value});
  }
  return true;
}

bool read_transform(const Node& node, const std::string& key, TransformConfig& value, Origins& origins,
                    Problems& problems) {
  NamedOptions entry;
  if (!split_entry(node, key, entry, problems)) return false;
  const TransformKind* kind = find_transform(entry.name);
  if (kind == nullptr) {
    std::vector<std::string> names;
    for (const auto& known : transform_kinds()) names.push_back(known.name);
    const auto near = nearest(entry.name, names);
    return refuse(node, entry.where,
                  key + ": expected one of " + join_or(names) + ", found '" + shortened(entry.name) + "'" +
                      (near ? " (did you mean '" + *near + "'?)" : ""),
                  problems);
  }
  value.name = kind->name;
  if (Entry* main = entry.options.find("")) {
    if (kind->main_option.empty()) {
      return refuse(
          node, main->value.where,
          key + ": expected `" + kind->name + ": {option: value}`, found " + main->value.described(),
          problems);
    }
    main->key = kind->main_option;
  }
  Reader reader(entry.options, key, origins, problems);
  describe(reader, value);
  reader.finish();
  return true;
}

}  // namespace

bool read_transforms(const Node& node, const std::string& key, std::vector<TransformConfig>& value,
                     Origins& origins, Problems& problems) {
  if (node.kind == Node::Kind::invalid) return false;
  if (node.kind != Node::Kind::sequence) {
    return refuse(node, node.where, key + ": expected a list of transforms, found " + node.described(),
                  problems);
  }
  value.assign(node.items.size(), {});
  bool good = true;
  for (size_t i = 0; i < value.size(); ++i) {
    good = read_transform(node.items[i], key + "[" + std::to_string(i) + "]", value[i], origins, problems) &&
           good;
  }
  return good;
}

}  // namespace ampctl::config
