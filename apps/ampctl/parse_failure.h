// What is wrong with a command line, in words that name the nearest command or flag.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ampctl::cli {

/// The command that was chosen, as far as the words went.
[[nodiscard]] const CLI::App* deepest(const CLI::App* app);
/// "ampctl config show"
[[nodiscard]] std::string full_name(const CLI::App* app);
[[nodiscard]] std::vector<std::string> visible_commands(const CLI::App* app);

/// The usage error for a parser's complaint.
[[nodiscard]] Error explain(const CLI::App& root, const CLI::ParseError& failure);

}  // namespace ampctl::cli
