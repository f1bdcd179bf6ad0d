// The configurations that `ampctl bench --compare` measures.
#pragma once

#include <string>
#include <vector>

namespace ampctl::cli {

/// One field and the values to compare, as "amp.dtype=float32,float16" gives them. Commas inside brackets,
/// braces and quotes belong to a value.
struct Comparison {
  std::string key;
  std::vector<std::string> values;
};

/// Throws a usage error for a text that is not KEY=V1,V2,… or that names a value twice.
[[nodiscard]] Comparison parse_comparison(const std::string& text);

/// One value of each comparison, in the comparisons' order.
struct Setting {
  std::string key;
  std::string value;
};
using Variant = std::vector<Setting>;

/// Every combination, the last comparison's values changing fastest; a single empty variant for no
/// comparisons. Throws a usage error when a key is compared twice.
[[nodiscard]] std::vector<Variant> variants(const std::vector<Comparison>& comparisons);

/// "amp.dtype=float16 data.batch_size=32"; "" for the empty variant.
[[nodiscard]] std::string name_of(const Variant& variant);

/// Index of the variant that variant `index` is compared with: the same but for the first comparison's value,
/// which is float32 where that is among them, else the first one.
[[nodiscard]] std::size_t baseline_of(const std::vector<Variant>& all, std::size_t index);

}  // namespace ampctl::cli
