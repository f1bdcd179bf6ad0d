#include "config/load.h"
#include "config/scalars.h"
#include "config/walk.h"
#include "config/yaml_tree.h"

namespace ampctl::config {
namespace {

std::string introduction() {
  const auto number = [](size_t value) { return format_count(static_cast<int64_t>(value)); };
  return R"(# Configuration

<!-- Written by `ampctl config docs`; edit the field descriptions in src/config/describe_*.cpp instead. -->

An experiment is one YAML file. Everything that is not written has the default below. `ampctl config show`
prints the result, `ampctl config validate` checks it, `ampctl config schema` prints a JSON Schema for editors.

**Order of precedence**: command line (`--set optimizer.lr=0.05` or bare `optimizer.lr=0.05`) over later files
over earlier files over what they extend over defaults. Maps are joined key by key; lists and single values are
replaced as a whole. Where a later source chooses another `name` or `format`, the options of the earlier choice
go with it; of two settings that exclude each other (`train.epochs` and `train.steps`), the later one stays.

**Extending**: `extends: base.yaml`, or a list of files, relative to the file that says so.

**Variables**: `${VAR}` and `${VAR:default}` in the values of files read the environment, also inside text; a
variable that is not set and has no default is an error. Quote them inside `{ }`. `$${` stands for `${`.

**Numbers** may be written as 0.1, 1e-4 or, for integers too, 1e5. **Optional** settings take `null`. Paths
start at the working directory.

**Mistakes** are all reported at once, as `file:line:column: key: expected ..., found ...`, and exit code 2.
Unknown keys, keys given twice and options that the choice made does not take are mistakes.

**Limits** of one file: )" +
         number(kMaxFileBytes) + " bytes, " + number(kMaxNodes) + " values with aliases written out, " +
         number(kMaxDepth) + " levels.\n";
}

// A cell of a table: no bar may end it early.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string allowed(const FieldRow& row) {
  const Rule& rule = row.field.rule;
  std::string text = row.type;
  if (!rule.choices.empty()) {
    text.clear();
    for (const auto& choice : rule.choices) text += (text.empty() ? "`" : ", `") + choice + "`";
  }
  text += rule.range_text();
  if (!rule.unit_text.empty()) text += " (" + rule.unit_text + ")";
  return text;
}

std::string default_text(const FieldRow& row) {
  const Rule& rule = row.field.rule;
  if (rule.is_required) return "required";
  if (row.value == "null") return "`null`: " + rule.absent_text;
  if (row.value == "\"\"") return "required";
  return "`" + row.value + "`";
}

std::string synonyms(const Rule& rule) {
  std::string text;
  for (const auto& [other, meaning] : rule.synonyms) {
    if (meaning == "true" || meaning == "false") continue;
    text += (text.empty() ? " Also: `" : ", `") + other + "` for `" + meaning + "`";
  }
  return text.empty() ? "" : text + ".";
}

std::string table(const std::vector<FieldRow>& rows, bool with_defaults) {
  std::string text = with_defaults ? "| key | allowed | default | meaning |\n|---|---|---|---|\n"
                                   : "| option | allowed | default | of | meaning |\n|---|---|---|---|---|\n";
  for (const auto& row : rows) {
    const Rule& rule = row.field.rule;
    std::string meaning = row.field.text + synonyms(rule);
    text += "| `" + row.field.name + "` | " + cell(allowed(row)) + " | " + cell(default_text(row)) + " | ";
    if (!with_defaults) {
      text += join_or(rule.owners) + " | ";
    } else if (!rule.owners.empty()) {
      meaning += " Only for " + join_or(rule.owners) + ".";
    }
    text += cell(meaning) + " |\n";
  }
  return text;
}

std::string transforms() {
  std::string text = R"(
## Transforms

An entry of a transforms list is a name (`horizontal_flip`), a name with its main option (`resize: 256`) or a
name with a map of options (`random_crop: {size: 32, padding: 4}`).

| name | main option | meaning |
|---|---|---|
)";
  for (const auto& kind : transform_kinds()) {
    const std::string main = kind.main_option.empty() ? "" : "`" + kind.main_option + "`";
    text += "| `" + kind.name + "` | " + main + " | " + kind.text + " |\n";
  }
  return text + "\n" + table(transform_options(), false);
}

}  // namespace

std::string to_markdown() {
  std::string text = introduction();
  for (const auto& section : all_sections()) {
    text +=
        section.key.empty() ? "\n## Top level\n\n" : "\n## " + section.key + "\n\n" + section.text + "\n\n";
    text += section.fields.empty() ? "" : table(section.fields, true);
  }
  return text + transforms();
}

}  // namespace ampctl::config
