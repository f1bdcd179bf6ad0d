// Numbers, truth values and text between YAML scalars and C++ values; every number written reads back equal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ampctl::config {

/// Decimal integers, also as 1e5 or 2.0e3 where the value is a whole number below 2^53.
std::optional<int64_t> parse_integer(std::string_view text);
/// Finite decimal numbers: 1, .5, 1e-4. No underscores, no inf, no nan.
std::optional<double> parse_number(std::string_view text);
/// true | false | yes | no | on | off, as written, capitalised or in capitals.
std::optional<bool> parse_bool(std::string_view text);

/// The shortest text that reads back equal, with a point before any exponent (YAML 1.1 readers need it).
std::string format_number(double value);
/// A YAML scalar that is read back as this text: plain where that is safe, else in double quotes. `${` is
/// written `$${`, so that it is not read as a variable.
std::string format_text(const std::string& value);
/// "1,281,167", for people.
std::string format_count(int64_t value);

}  // namespace ampctl::config
