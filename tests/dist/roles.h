// What a rank of the tests can be told to do. A role throws where something is not as it should be.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "base/error.h"
#include "dist/world.h"

namespace ampctl::test {

using Role = std::function<void(const dist::World&)>;

/// By name.
const std::map<std::string, Role>& roles();

std::map<std::string, Role> group_roles();
std::map<std::string, Role> gradient_roles();
std::map<std::string, Role> failure_roles();

/// Throws std::runtime_error with `claim` when it does not hold.
void require(bool holds, const std::string& claim);

/// Calls `body` and returns the message of the Error that it must throw; checks its kind.
std::string message_of_error(ErrorKind kind, const std::function<void()>& body);

/// Throws when `text` lacks `part`.
void require_contains(const std::string& text, const std::string& part);

/// A line on standard output, at once, which tests wait for.
void say(const std::string& line);

}  // namespace ampctl::test
