#include "command_line.h"

#include <algorithm>
#include <functional>
#include <map>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/version.h"
#include "bench_flags.h"
#include "commands.h"
#include "config_source.h"
#include "help_texts.h"
#include "launch_flags.h"
#include "output.h"
#include "parse_failure.h"

namespace ampctl::cli {
// Holds what the options write to, so it lives as long as the parser.
struct CommandLine::Grammar {
  CLI::App app{"Trains and evaluates image models in mixed precision from one YAML file.", "ampctl"};
  std::map<const CLI::App*, std::function<int()>> actions;

  std::vector<std::string> files;
  std::vector<std::string> words;
  TrainOptions train;
  EvalOptions eval;
  BenchOptions bench;
  PlanOptions plan;
  ConfigShowOptions show;
  ConfigDiffOptions diff;
  EnvOptions env;
  InspectOptions inspect;
  std::string shell;

  Grammar();
  CLI::App* add(CLI::App* parent, const std::string& name, const std::string& description,
                const std::string& footer, std::function<int()> action);
  void add_config_options(CLI::App* command, bool resumes);
  void files_as_words(CLI::App* command);
  ConfigSource source(const CLI::App* command, bool words_may_be_files) const;
  void add_train(const std::string& name, const std::string& description, const char* footer);
  void add_run_commands();
  void add_bench();
  void add_config_commands();
  void add_other_commands();
};

CLI::App* CommandLine::Grammar::add(CLI::App* parent, const std::string& name, const std::string& description,
                                    const std::string& footer, std::function<int()> action) {
  CLI::App* command = parent->add_subcommand(name, description);
  command->footer(footer);
  if (action) actions[command] = std::move(action);
  return command;
}

void CommandLine::Grammar::add_config_options(CLI::App* command, bool resumes) {
  command->add_option("-c,--config", files, "Experiment file; repeatable, later ones win")
      ->type_name("FILE")
      ->allow_extra_args(false);
  const auto field = [&](const std::string& name, const std::string& description, const char* value) {
    command->add_option(name, description)
        ->type_name(value)
        ->expected(1)
        ->take_all()
        ->allow_extra_args(false);
  };
  field("--set", "Sets a field of the configuration; repeatable", "KEY=VALUE");
  if (resumes) field("--resume", "Same as checkpoint.resume=…", kResumeValues);
  field("--output", "The run's folder, same as output=…", "FOLDER");
  field("--seed", "Same as seed=…", "N");
  command->add_option("overrides", words, "Fields of the configuration")->type_name("KEY=VALUE");
}

// Commands that only read configurations take files without -c as well.
void CommandLine::Grammar::files_as_words(CLI::App* command) {
  command->get_option("overrides")
      ->description("Experiment files, and fields of the configuration")
      ->type_name("FILE|KEY=VALUE");
}

// The parser keeps each option's values apart; "later wins" needs the order across all of them.
ConfigSource CommandLine::Grammar::source(const CLI::App* command, bool words_may_be_files) const {
  ConfigSource source;
  source.files = files;
  std::map<const CLI::Option*, std::size_t> used;
  for (const CLI::Option* option : command->parse_order()) {
    const std::size_t index = used[option]++;
    if (index >= option->results().size()) continue;
    const std::string& value = option->results()[index];
    if (option->check_lname("resume")) source.overrides.push_back(text_override("checkpoint.resume", value));
    if (option->check_lname("output")) source.overrides.push_back(text_override("output", value));
    if (option->check_lname("seed")) source.overrides.push_back("seed=" + value);
    const bool word = option->get_positional() && option->get_lnames().empty();
    if (!word && !option->check_lname("set")) continue;
    if (is_override(value)) {
      source.overrides.push_back(value);
    } else if (word && words_may_be_files) {
      source.files.push_back(value);
    } else {
      throw usage_error("'" + value +
                        "' is not of the form key=value, such as optimizer.lr=0.05; an experiment " +
                        "file is named with -c");
    }
  }
  return source;
}

void CommandLine::Grammar::add_train(const std::string& name, const std::string& description,
                                     const char* footer) {
  CLI::App* command = add(&app, name, description, footer, nullptr);
  add_config_options(command, true);
  add_launch_flags(command, train.launch);
  actions[command] = [this, command] {
    train.config = source(command, false);
    return run_train(train);
  };
}

void CommandLine::Grammar::add_run_commands() {
  add_train("train", "Trains a model, or continues a run", kTrainFooter);
  add_train("launch", "The same as train: trains with one process a GPU", kLaunchFooter);

  CLI::App* command =
      add(&app, "eval", "Evaluates a checkpoint on the evaluation data", kEvalFooter, nullptr);
  add_config_options(command, false);
  command->get_option("overrides")
      ->description("A run's folder, and fields of the configuration")
      ->type_name("FOLDER|KEY=VALUE");
  command->add_option("--checkpoint", eval.checkpoint, "Which checkpoint")
      ->type_name(kCheckpointValues)
      ->capture_default_str();
  command->add_flag("--json", eval.json, "Prints one JSON object");
  actions[command] = [this, command] {
    ConfigSource given = source(command, true);
    const std::vector<std::string> folders(given.files.begin() + static_cast<std::ptrdiff_t>(files.size()),
                                           given.files.end());
    if (folders.size() > 1) {
      throw usage_error("one run's folder is evaluated at a time, found '" + folders[0] + "' and '" +
                        folders[1] + "'");
    }
    if (!folders.empty()) eval.run = folders.front();
    given.files = files;
    eval.config = given;
    return run_eval(eval);
  };

  command = add(&app, "plan", "Prints what a run would do, without doing it", kPlanFooter, nullptr);
  add_config_options(command, true);
  command->add_option("--world-size", plan.world_size, "Plans for so many processes")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", plan.json, "Prints one JSON object");
  actions[command] = [this, command] {
    plan.config = source(command, false);
    return run_plan(plan);
  };
}

void CommandLine::Grammar::add_bench() {
  CLI::App* command = add(&app, "bench", "Measures training steps: throughput, memory, where the time goes",
                          kBenchFooter, nullptr);
  add_config_options(command, false);
  add_bench_flags(command, bench);
  actions[command] = [this, command] {
    bench.config = source(command, false);
    return run_bench(bench);
  };
}

void CommandLine::Grammar::add_config_commands() {
  CLI::App* config = add(&app, "config", "Shows, checks and compares configurations", kConfigFooter, nullptr);

  CLI::App* command = add(config, "show", "Prints the resolved configuration as YAML", "", nullptr);
  add_config_options(command, true);
  files_as_words(command);
  command->add_flag("--comments", show.comments, "Explains every field beside it");
  actions[command] = [this, command] {
    show.config = source(command, true);
    return run_config_show(show);
  };

  command = add(config, "validate", "Reports every problem of a configuration; opens no data", "", nullptr);
  add_config_options(command, true);
  files_as_words(command);
  actions[command] = [this, command] { return run_config_validate(source(command, true)); };

  command = add(config, "diff", "Prints the fields that differ between two configurations", "",
                [this] { return run_config_diff(diff); });
  command->add_option("left", diff.left, "An experiment file or a run's folder")
      ->type_name("FILE")
      ->required();
  command->add_option("right", diff.right, "Another one")->type_name("FILE")->required();
  command->add_flag("--json", diff.json, "Prints a JSON array");

  add(config, "schema", "Prints the experiment file's JSON Schema, for editors", "", run_config_schema);
  add(config, "docs", "Prints docs/configuration.md", "", run_config_docs)->group("");
}

void CommandLine::Grammar::add_other_commands() {
  CLI::App* command = add(&app, "env", "Examines this machine: GPUs, precision, libraries, memory, disk", "",
                          [this] { return run_env(env); });
  command->add_flag("--json", env.json, "Prints one JSON object");

  command = add(&app, "inspect", "Shows what is in a run, a checkpoint or a safetensors file", kInspectFooter,
                [this] { return run_inspect(inspect); });
  command->add_option("path", inspect.path, "A run's folder, a checkpoint's folder or a safetensors file")
      ->type_name("PATH")
      ->required();
  command->add_flag("--json", inspect.json, "Prints one JSON object");

  command = add(&app, "completion", "Prints a completion script for a shell", kCompletionFooter,
                [this] { return run_completion(app, shell); });
  command->add_option("shell", shell, "The shell")
      ->type_name("bash|zsh")
      ->required()
      ->check([](const std::string& name) {
        return name == "bash" || name == "zsh" ? "" : "expected bash or zsh, found '" + name + "'";
      });
}

CommandLine::Grammar::Grammar() {
  app.footer(kFooter);
  app.set_version_flag("--version",
                       std::string("ampctl ") + kVersion + " (LibTorch " + AMPCTL_TORCH_VERSION +
                           (AMPCTL_CUDA_KERNELS != 0 ? ", CUDA kernels)" : ", no CUDA kernels)"));
  add_run_commands();
  add_bench();
  add_config_commands();
  add_other_commands();
}

CommandLine::CommandLine() : grammar_(std::make_unique<Grammar>()) {}
CommandLine::~CommandLine() = default;

int CommandLine::run(const std::vector<std::string>& arguments) {
  CLI::App& app = grammar_->app;
  grammar_->bench.arguments = arguments;
  std::vector<std::string> reversed = normalised(arguments);
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return kExitDone;
  } catch (const CLI::CallForVersion& version) {
    print(std::string(version.what()) + "\n");
    return kExitDone;
  } catch (const CLI::ParseError& failure) {
    throw explain(app, failure);
  }
  const CLI::App* command = deepest(&app);
  const auto action = grammar_->actions.find(command);
  if (action == grammar_->actions.end()) {
    throw usage_error("no command given after '" + full_name(command) + "': expected one of " +
                      CLI::detail::join(visible_commands(command), ", ") + "; see '" + full_name(command) +
                      " --help'");
  }
  return action->second();
}

std::vector<std::string> normalised(std::vector<std::string> arguments) {
  for (auto& argument : arguments) {
    if (argument == "--") break;
    if (argument.rfind("--", 0) != 0) continue;
    const auto end =
        argument.begin() + static_cast<std::ptrdiff_t>(std::min(argument.find('='), argument.size()));
    // A field of the configuration keeps its name, for the message that says how it is written.
    if (std::find(argument.begin(), end, '.') != end) continue;
    std::replace(argument.begin(), end, '_', '-');
  }
  return arguments;
}

}  // namespace ampctl::cli
