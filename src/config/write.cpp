#include <algorithm>
#include <map>

#include "config/load.h"
#include "config/walk.h"

namespace ampctl::config {
namespace {

constexpr size_t kIndent = 2;
constexpr size_t kCommentColumn = 44;

class Writer : public Visitor {
 public:
  explicit Writer(bool comments) : comments_(comments) {}
  [[nodiscard]] const std::string& text() const { return text_; }

 protected:
  void field(const Field& field, FieldValue value) override {
    if (!field.rule.applies()) return;
    std::string line = indent() + field.name + ":";
    auto** transforms = std::get_if<std::vector<TransformConfig>*>(&value);
    if (transforms != nullptr && !(*transforms)->empty()) {
      add(line, field.text);
      for (auto& transform : **transforms) {
        std::vector<TransformConfig> single{transform};
        const std::string list = format_value(&single);
        text_ += indent() + "  - " + list.substr(1, list.size() - 2) + "\n";
      }
      return;
    }
    // A choice that was never made (the format of an evaluation part split off) is left out.
    const std::string shown = format_value(value);
    if (!field.rule.choices.empty() && shown == "\"\"") return;
    add(line + " " + shown, field.text);
  }

  bool enter(const Section& section) override {
    if (section.optional && !section.present) {
      add(indent() + section.name + ": null", section.text);
      return false;
    }
    add(indent() + section.name + ":", section.text);
    ++depth_;
    return true;
  }

  void leave() override { --depth_; }

 private:
  [[nodiscard]] std::string indent() const { return std::string(kIndent * depth_, ' '); }

  void add(std::string line, const std::string& comment) {
    if (comments_) {
      line.resize(std::max(line.size() + 2, kCommentColumn), ' ');
      line += "# " + comment;
    }
    text_ += line + "\n";
  }

  bool comments_;
  size_t depth_ = 0;
  std::string text_;
};

std::map<std::string, std::string> values_by_key(const ExperimentConfig& config) {
  std::map<std::string, std::string> values;
  for (const auto& section : sections_of(config)) {
    for (const auto& row : section.fields) {
      if (row.field.rule.applies()) values[row.key] = row.value;
    }
  }
  return values;
}

}  // namespace

std::string to_yaml(const ExperimentConfig& config, bool comments) {
  ExperimentConfig copy = config;
  Writer writer(comments);
  describe(writer, copy);
  return writer.text();
}

std::vector<FieldDifference> diff(const ExperimentConfig& left, const ExperimentConfig& right) {
  const std::string absent = "(absent)";
  const auto lefts = values_by_key(left);
  const auto rights = values_by_key(right);
  const auto value_in = [&absent](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? absent : found->second;
  };
  std::vector<FieldDifference> differences;
  for (const auto& section : all_sections()) {
    for (const auto& row : section.fields) {
      FieldDifference difference{row.key, value_in(lefts, row.key), value_in(rights, row.key)};
      if (difference.left != difference.right) differences.push_back(std::move(difference));
    }
  }
  return differences;
}

}  // namespace ampctl::config
