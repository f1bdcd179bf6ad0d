#include <nlohmann/json.hpp>

#include "config/load.h"
#include "config/walk.h"

namespace ampctl::config {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kVariable = R"(\$\{[A-Za-z_][A-Za-z0-9_]*(:[^}]*)?\})";

Json one_of_schemas(std::initializer_list<Json> schemas) { return {{"anyOf", Json(schemas)}}; }

// Any single value may come from the environment.
Json or_variable(Json schema) {
  return one_of_schemas({std::move(schema), {{"type", "string"}, {"pattern", kVariable}}});
}

void add_range(const Rule& rule, Json& schema) {
  if (rule.min) schema[rule.min_excluded ? "exclusiveMinimum" : "minimum"] = *rule.min;
  if (rule.max) schema[rule.max_excluded ? "exclusiveMaximum" : "maximum"] = *rule.max;
}

Json number(const Rule& rule, const char* type) {
  Json schema{{"type", type}};
  add_range(rule, schema);
  return schema;
}

Json scalar(const Rule& rule, const bool* /*type*/) {
  return rule.choices.empty() ? Json{{"type", "boolean"}} : Json{};
}
Json scalar(const Rule& rule, const int64_t* /*type*/) { return number(rule, "integer"); }
Json scalar(const Rule& rule, const double* /*type*/) { return number(rule, "number"); }
Json scalar(const Rule& rule, const std::string* /*type*/) {
  if (rule.choices.empty()) return {{"type", {"string", "number", "boolean"}}};
  Json values = rule.choices;
  for (const auto& synonym : rule.synonyms) values.push_back(synonym.first);
  if (rule.choice("true")) {
    values.push_back(true);
    values.push_back(false);
  }
  return {{"enum", values}};
}

Json with_null(const Rule& rule, Json schema) {
  if (rule.null_word.empty()) return one_of_schemas({std::move(schema), {{"type", "null"}}});
  return one_of_schemas({std::move(schema), {{"enum", {nullptr, rule.null_word}}}});
}

Json list(Json items) { return {{"type", "array"}, {"items", or_variable(std::move(items))}}; }

template <class T>
Json value_schema(const Rule& rule, const std::optional<T>* /*type*/) {
  const T* inner = nullptr;
  return or_variable(with_null(rule, scalar(rule, inner)));
}
template <class T>
Json value_schema(const Rule& rule, const std::vector<T>* /*type*/) {
  const T* inner = nullptr;
  return list(scalar(rule, inner));
}
Json value_schema(const Rule& rule, const std::array<double, 2>* /*type*/) {
  Json schema = list(number(rule, "number"));
  schema["minItems"] = schema["maxItems"] = 2;
  return schema;
}
Json value_schema(const Rule& /*rule*/, const std::vector<TransformConfig>* /*type*/) {
  return {{"type", "array"}, {"items", {{"$ref", "#/$defs/transform"}}}};
}
template <class T>
Json value_schema(const Rule& rule, const T* type) {
  return or_variable(scalar(rule, type));
}

std::string description(const Field& field) {
  std::string text = field.text;
  if (!field.rule.unit_text.empty()) text += " Unit: " + field.rule.unit_text + ".";
  if (!field.rule.absent_text.empty()) text += " null: " + field.rule.absent_text + ".";
  if (!field.rule.owners.empty()) text += " Only for " + join_or(field.rule.owners) + ".";
  return text;
}

Json object(const std::string& text) {
  Json schema{{"type", "object"}};
  if (!text.empty()) schema["description"] = text;
  schema["additionalProperties"] = false;
  schema["properties"] = Json::object();
  return schema;
}

class SchemaWriter : public Visitor {
 public:
  explicit SchemaWriter(const std::string& text) { open_.push_back(object(text)); }
  Json take() { return std::move(open_.front()); }

 protected:
  void field(const Field& field, FieldValue value) override {
    Json schema = std::visit([&field](auto* type) { return value_schema(field.rule, type); }, value);
    schema["description"] = description(field);
    const std::string text = format_value(value);
    // Lists' text is JSON as well, as are numbers and truth values; plain words are not.
    if (!field.rule.is_required && text != "\"\"") schema["default"] = Json::parse(text, nullptr, false);
    if (schema["default"].is_discarded()) schema["default"] = text;
    if (schema["default"].is_null() && text != "null") schema.erase("default");
    open_.back()["properties"][field.name] = std::move(schema);
    // A file may leave to others what an experiment needs; a transform's options stand together.
    const bool complete_here = !field.rule.owners.empty();
    if (field.rule.is_required && complete_here && field.rule.applies()) {
      open_.back()["required"].push_back(field.name);
    }
  }

  bool enter(const Section& section) override {
    names_.push_back(section);
    open_.push_back(object(section.text));
    return true;
  }

  void leave() override {
    Json schema = std::move(open_.back());
    open_.pop_back();
    if (names_.back().optional) schema["type"] = {"object", "null"};
    open_.back()["properties"][names_.back().name] = std::move(schema);
    names_.pop_back();
  }

 private:
  std::vector<Json> open_;
  std::vector<Section> names_;
};

// A name, `name: value` or `name: {option: value}`.
Json transform_schema() {
  Json names = Json::array();
  Json entries = object("");
  for (const auto& kind : transform_kinds()) {
    TransformConfig transform;
    transform.name = kind.name;
    SchemaWriter writer(kind.text);
    describe(writer, transform);
    Json options = writer.take();
    for (const auto& row : transform_options()) {
      Rule rule = row.field.rule;
      rule.selected = kind.name;
      if (!rule.applies()) options["properties"].erase(row.field.name);
    }
    Json forms = Json::array({options});
    if (!options.contains("required")) {
      names.push_back(kind.name);
      forms.push_back({{"type", "null"}});
    }
    if (!kind.main_option.empty()) forms.push_back(options["properties"][kind.main_option]);
    entries["properties"][kind.name] = {{"description", kind.text}, {"anyOf", forms}};
  }
  entries["minProperties"] = entries["maxProperties"] = 1;
  return one_of_schemas({{{"enum", names}}, entries});
}

}  // namespace

std::string json_schema() {
  ExperimentConfig defaults;
  SchemaWriter writer("Experiment file of ampctl.");
  describe(writer, defaults);
  Json schema = writer.take();
  const Json file{{"type", "string"}};
  schema["properties"]["extends"] = {
      {"description", "Files that this one builds on, relative to it; later ones win."},
      {"anyOf", {file, {{"type", "array"}, {"items", file}}}}};
  Json root{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "ampctl experiment"}};
  root.update(schema);
  root["$defs"]["transform"] = transform_schema();
  constexpr int kIndent = 2;
  return root.dump(kIndent) + "\n";
}

}  // namespace ampctl::config
