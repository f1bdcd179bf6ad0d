// A configuration as a flat list of fields, for what does not care about its nesting.
#pragma once

#include <string>
#include <vector>

#include "config/describe.h"

namespace ampctl::config {

struct FieldRow {
  std::string key;  ///< dotted
  Field field;
  std::string type;   ///< for people
  std::string value;  ///< as YAML
};

struct SectionRow {
  std::string key;  ///< dotted; "" for the file itself
  std::string text;
  std::vector<FieldRow> fields;
};

/// Every section and field; an optional section that is absent has no row.
std::vector<SectionRow> sections_of(const ExperimentConfig& config);
/// The same with default values, and optional sections as if they were there.
std::vector<SectionRow> all_sections();
/// The options of transforms.
std::vector<FieldRow> transform_options();

/// A value as YAML on one line.
std::string format_value(const FieldValue& value);

}  // namespace ampctl::config
