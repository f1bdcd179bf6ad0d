#include "launch/environment.h"

#include <charconv>

#include <unistd.h>

#include "base/error.h"

namespace ampctl::launch {

Variables process_variables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

const std::string* find(const Variables& variables, const std::string& name) {
  const auto entry = variables.find(name);
  return entry == variables.end() || entry->second.empty() ? nullptr : &entry->second;
}

std::optional<int64_t> number(const Variables& variables, const std::string& name,
                              const std::string& remedy) {
  const std::string* text = find(variables, name);
  if (text == nullptr) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, failure] = std::from_chars(text->data(), end, value);
  if (failure != std::errc() || stop != end || value < 0) {
    throw usage_error("environment variable " + name + ": expected a whole number of at least 0, found '" +
                      *text + "'" + remedy);
  }
  return value;
}

}  // namespace ampctl::launch
