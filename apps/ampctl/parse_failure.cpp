#include "parse_failure.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "config/nearest.h"

namespace ampctl::cli {
namespace {

std::vector<std::string> flags(const CLI::App* app) {
  std::vector<std::string> names;
  for (const auto* option : app->get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const auto found = config::nearest(word, known);
  return found ? " (did you mean '" + *found + "'?)" : "";
}

Error unknown_flag(const CLI::App* app, const std::string& flag) {
  const std::string name = flag.substr(0, flag.find('='));
  if (name.find('.') != std::string::npos) {
    return usage_error("unknown flag " + name + ": a field of the configuration is written without dashes, " +
                       flag.substr(std::min(flag.find_first_not_of('-'), flag.size())) + ", or after --set");
  }
  return usage_error("unknown flag " + name + did_you_mean(name, flags(app)) + "; see '" + full_name(app) +
                     " --help'");
}

Error unknown_word(const CLI::App* app, const std::string& word) {
  const auto commands = visible_commands(app);
  if (commands.empty()) {
    return usage_error("unexpected word '" + word + "'; see '" + full_name(app) + " --help'");
  }
  return usage_error("unknown command '" + word + "'" + did_you_mean(word, commands) + "; expected one of " +
                     CLI::detail::join(commands, ", "));
}

}  // namespace

const CLI::App* deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string full_name(const CLI::App* app) {
  const CLI::App* parent = app->get_parent();
  return parent == nullptr ? app->get_name() : full_name(parent) + " " + app->get_name();
}

std::vector<std::string> visible_commands(const CLI::App* app) {
  std::vector<std::string> names;
  for (const auto* command :
       app->get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); })) {
    names.push_back(command->get_name());
  }
  return names;
}

Error explain(const CLI::App& root, const CLI::ParseError& failure) {
  const CLI::App* app = deepest(&root);
  const auto unexpected = app->remaining();
  if (unexpected.empty()) {
    return usage_error(std::string(failure.what()) + "; see '" + full_name(app) + " --help'");
  }
  const std::string& first = unexpected.front();
  return first.rfind('-', 0) == 0 ? unknown_flag(app, first) : unknown_word(app, first);
}

}  // namespace ampctl::cli
