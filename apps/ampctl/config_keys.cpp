#include "config_keys.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "config/load.h"

namespace ampctl::cli {
namespace {

using Json = nlohmann::ordered_json;

class Walk {
 public:
  explicit Walk(Json schema) : schema_(std::move(schema)) {}

  std::vector<ConfigKey> keys() {
    visit(schema_, "");
    return std::move(keys_);
  }

 private:
  const Json& resolved(const Json& node) const {
    const auto reference = node.find("$ref");
    if (reference == node.end()) return node;
    return schema_.at(Json::json_pointer(reference->get<std::string>().substr(1)));  // after '#'
  }

  void visit(const Json& given, const std::string& key) {
    const Json& node = resolved(given);
    if (node.contains("properties")) {
      for (const auto& [name, child] : node.at("properties").items()) {
        visit(child, key.empty() ? name : key + "." + name);
      }
      return;
    }
    if (const Json* section = alternative_with_properties(node)) {
      visit(*section, key);
      return;
    }
    ConfigKey field{key, {}};
    collect_values(node, field.values);
    keys_.push_back(std::move(field));
  }

  const Json* alternative_with_properties(const Json& node) const {
    for (const char* kind : {"anyOf", "oneOf"}) {
      if (!node.contains(kind)) continue;
      for (const auto& alternative : node.at(kind)) {
        if (resolved(alternative).contains("properties")) return &alternative;
      }
    }
    return nullptr;
  }

  void collect_values(const Json& given, std::vector<std::string>& values) const {
    const Json& node = resolved(given);
    const auto add = [&](const Json& value) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      if (std::find(values.begin(), values.end(), text) == values.end()) values.push_back(text);
    };
    if (node.contains("enum")) {
      for (const auto& value : node.at("enum")) add(value);
    }
    if (node.contains("const")) add(node.at("const"));
    if (node.contains("type") && node.at("type") == "boolean") {
      add(true);
      add(false);
    }
    for (const char* kind : {"anyOf", "oneOf"}) {
      if (!node.contains(kind)) continue;
      for (const auto& alternative : node.at(kind)) collect_values(alternative, values);
    }
  }

  Json schema_;
  std::vector<ConfigKey> keys_;
};

}  // namespace

std::vector<ConfigKey> config_keys() { return Walk(Json::parse(config::json_schema())).keys(); }

}  // namespace ampctl::cli
