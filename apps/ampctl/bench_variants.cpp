#include "bench_variants.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "config_source.h"

namespace ampctl::cli {
namespace {

constexpr std::string_view kReferencePrecision = "float32";

std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  return values;
}

bool same_but_for_first(const Variant& a, const Variant& b) {
  return std::equal(a.begin() + 1, a.end(), b.begin() + 1, b.end(),
                    [](const Setting& x, const Setting& y) { return x.value == y.value; });
}

}  // namespace

Comparison parse_comparison(const std::string& text) {
  if (!is_override(text)) {
    throw usage_error("--compare: expected KEY=VALUE,VALUE,…, such as amp.dtype=float32,float16; found '" +
                      text + "'");
  }
  const auto equals = text.find('=');
  Comparison comparison{text.substr(0, equals), split_values(std::string_view(text).substr(equals + 1))};
  for (auto value = comparison.values.begin(); value != comparison.values.end(); ++value) {
    if (value->empty()) {
      throw usage_error("--compare " + comparison.key + ": expected values separated by commas, found '" +
                        text.substr(equals + 1) + "', where one is empty");
    }
    if (std::find(comparison.values.begin(), value, *value) != value) {
      throw usage_error("--compare " + comparison.key + ": expected different values, found " + *value +
                        " twice");
    }
  }
  return comparison;
}

std::vector<Variant> variants(const std::vector<Comparison>& comparisons) {
  std::vector<Variant> all{{}};
  for (auto comparison = comparisons.begin(); comparison != comparisons.end(); ++comparison) {
    const bool again = std::any_of(comparisons.begin(), comparison,
                                   [&](const Comparison& other) { return other.key == comparison->key; });
    if (again) throw usage_error("--compare " + comparison->key + " was given twice: name all values in one");
    std::vector<Variant> longer;
    for (const Variant& variant : all) {
      for (const auto& value : comparison->values) {
        longer.push_back(variant);
        longer.back().push_back({comparison->key, value});
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::string name_of(const Variant& variant) {
  std::string name;
  for (const auto& setting : variant) name += (name.empty() ? "" : " ") + setting.key + "=" + setting.value;
  return name;
}

std::size_t baseline_of(const std::vector<Variant>& all, std::size_t index) {
  const Variant& variant = all.at(index);
  if (variant.empty()) return index;
  const auto peers = [&](const Variant& other) { return same_but_for_first(variant, other); };
  const auto reference = std::find_if(all.begin(), all.end(), [&](const Variant& other) {
    return peers(other) && other.front().value == kReferencePrecision;
  });
  const auto found = reference != all.end() ? reference : std::find_if(all.begin(), all.end(), peers);
  return static_cast<std::size_t>(found - all.begin());
}

}  // namespace ampctl::cli
