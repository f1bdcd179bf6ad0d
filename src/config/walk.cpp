#include "config/walk.h"

#include "config/scalars.h"

namespace ampctl::config {
namespace {

std::string format(bool value) { return value ? "true" : "false"; }
std::string format(int64_t value) { return std::to_string(value); }
std::string format(double value) { return format_number(value); }
std::string format(const std::string& value) { return format_text(value); }
std::string format(const TransformConfig& value);

template <class Range>
std::string format_list(const Range& values) {
  std::string text;
  for (const auto& value : values) {
    if (!text.empty()) text += ", ";
    text += format(value);
  }
  return "[" + text + "]";
}

template <class T>
std::string format(const std::vector<T>& values) {
  return format_list(values);
}
std::string format(const std::array<double, 2>& values) { return format_list(values); }
template <class T>
std::string format(const std::optional<T>& value) {
  return value ? format(*value) : "null";
}

class Rows : public Visitor {
 public:
  explicit Rows(bool walk_absent) : walk_absent_(walk_absent) { sections_.push_back({}); }
  std::vector<SectionRow> take() { return std::move(sections_); }

 protected:
  void field(const Field& field, FieldValue value) override {
    SectionRow& section = sections_[open_.empty() ? 0 : open_.back()];
    const std::string key = section.key.empty() ? field.name : section.key + "." + field.name;
    section.fields.push_back({key, field, type_name(value), format_value(value)});
  }

  bool enter(const Section& section) override {
    if (section.optional && !section.present && !walk_absent_) return false;
    const std::string above = open_.empty() ? "" : sections_[open_.back()].key + ".";
    open_.push_back(sections_.size());
    sections_.push_back({above + section.name, section.text, {}});
    return true;
  }

  void leave() override { open_.pop_back(); }

 private:
  static std::string type_name(const FieldValue& value) {
    return std::visit(
        Overloaded{[](bool*) { return "true or false"; }, [](int64_t*) { return "integer"; },
                   [](std::optional<int64_t>*) { return "integer"; }, [](double*) { return "number"; },
                   [](std::optional<double>*) { return "number"; }, [](std::string*) { return "text"; },
                   [](std::optional<std::string>*) { return "text"; },
                   [](std::vector<std::string>*) { return "list of texts"; },
                   [](std::vector<int64_t>*) { return "list of integers"; },
                   [](std::vector<double>*) { return "list of numbers"; },
                   [](std::array<double, 2>*) { return "list of two numbers"; },
                   [](std::vector<TransformConfig>*) { return "list of transforms"; }},
        value);
  }

  bool walk_absent_;
  std::vector<SectionRow> sections_;
  std::vector<size_t> open_;
};

// The options that apply to one transform, as "name: {option: value}".
class TransformText : public Visitor {
 public:
  [[nodiscard]] const std::string& options() const { return options_; }

 protected:
  void field(const Field& field, FieldValue value) override {
    if (!field.rule.applies()) return;
    if (!options_.empty()) options_ += ", ";
    options_ += field.name + ": " + format_value(value);
  }
  bool enter(const Section& /*section*/) override { return true; }
  void leave() override {}

 private:
  std::string options_;
};

std::string format(const TransformConfig& value) {
  TransformConfig copy = value;
  TransformText text;
  describe(text, copy);
  return "{" + copy.name + ": {" + text.options() + "}}";
}

}  // namespace

std::string format_value(const FieldValue& value) {
  return std::visit(Overloaded{[](std::vector<TransformConfig>* list) { return format_list(*list); },
                               [](auto* plain) { return format(*plain); }},
                    value);
}

std::vector<SectionRow> sections_of(const ExperimentConfig& config) {
  ExperimentConfig copy = config;
  Rows rows(false);
  describe(rows, copy);
  return rows.take();
}

std::vector<SectionRow> all_sections() {
  ExperimentConfig defaults;
  Rows rows(true);
  describe(rows, defaults);
  return rows.take();
}

std::vector<FieldRow> transform_options() {
  TransformConfig any_transform;
  Rows rows(true);
  describe(rows, any_transform);
  return rows.take().front().fields;
}

}  // namespace ampctl::config
