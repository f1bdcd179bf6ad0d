#include "roles.h"

#include <iostream>
#include <stdexcept>

namespace ampctl::test {

const std::map<std::string, Role>& roles() {
  static const std::map<std::string, Role> all = [] {
    auto merged = group_roles();
    merged.merge(gradient_roles());
    merged.merge(failure_roles());
    return merged;
  }();
  return all;
}

void require(bool holds, const std::string& claim) {
  if (!holds) throw std::runtime_error("does not hold: " + claim);
}

std::string message_of_error(ErrorKind kind, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    require(error.kind() == kind, std::string("the error has the expected kind: ") + error.what());
    return error.what();
  }
  throw std::runtime_error("an error was expected");
}

void require_contains(const std::string& text, const std::string& part) {
  require(text.find(part) != std::string::npos, "'" + text + "' contains '" + part + "'");
}

void say(const std::string& line) { std::cout << line << std::endl; }

}  // namespace ampctl::test
