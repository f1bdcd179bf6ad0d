// How the descriptions of config/describe.h are walked: reader, writer, schema, documentation and diff are
// visitors.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "config/data_config.h"
#include "config/rule.h"

namespace ampctl::config {

/// Where a field's value lives; one alternative a type that fields have.
using FieldValue =
    std::variant<bool*, int64_t*, double*, std::string*, std::optional<int64_t>*, std::optional<double>*,
                 std::optional<std::string>*, std::vector<std::string>*, std::vector<int64_t>*,
                 std::vector<double>*, std::array<double, 2>*, std::vector<TransformConfig>*>;

struct Field {
  std::string name;
  Rule rule;
  std::string text;  ///< one sentence
};

struct Section {
  std::string name;
  std::string text;
  bool optional = false;
  bool present = true;  ///< optional sections: whether the configuration has it
};

class Visitor {
 public:
  Visitor() = default;
  virtual ~Visitor() = default;
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;

  template <class T>
  void operator()(std::string name, T& value, Rule rule, std::string text) {
    field({std::move(name), std::move(rule), std::move(text)}, FieldValue(&value));
  }

  template <class C>
  void section(std::string name, C& config, std::string text) {
    if (!enter({std::move(name), std::move(text)})) return;
    describe(*this, config);
    leave();
  }

  template <class C>
  void section(std::string name, std::optional<C>& config, std::string text) {
    if (!enter({std::move(name), std::move(text), true, config.has_value()})) {
      config.reset();
      return;
    }
    if (!config) config.emplace();
    describe(*this, *config);
    leave();
  }

 protected:
  virtual void field(const Field& field, FieldValue value) = 0;
  /// False: the section is not walked, and an optional one is emptied.
  virtual bool enter(const Section& section) = 0;
  virtual void leave() = 0;
};

/// Calls of std::visit with a lambda a type.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace ampctl::config
