#include <algorithm>

#include "e2e/programs.h"
#include "support/catch.h"
#include "support/matchers.h"

using ampctl::test::ContainsSubstring;
using ampctl::test::kAmpctl;
using ampctl::test::run;
using ampctl::test::run_ampctl;

namespace {

const std::vector<std::vector<std::string>> kCommands{{"train"},
                                                      {"launch"},
                                                      {"eval"},
                                                      {"plan"},
                                                      {"config"},
                                                      {"config", "show"},
                                                      {"config", "validate"},
                                                      {"config", "diff"},
                                                      {"config", "schema"},
                                                      {"env"},
                                                      {"inspect"},
                                                      {"completion"}};

std::vector<std::string> with(std::vector<std::string> words, const std::string& last) {
  words.push_back(last);
  return words;
}

}  // namespace

TEST_CASE("--help shows the commands, examples, exit codes and environment") {
  const auto result = run_ampctl({"--help"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  for (const char* part : {"train", "launch", "eval", "plan", "config", "env", "inspect", "completion",
                           "Examples:", "Exit codes:", "75", "Environment:", "AMPCTL_WORKER"}) {
    CHECK_THAT(result.out, ContainsSubstring(part));
  }
  CHECK(result.out.find("docs  ") == std::string::npos);
}

TEST_CASE("Every command has its own --help, also as -h") {
  for (const auto& command : kCommands) {
    const auto result = run_ampctl(with(command, "--help"));
    INFO(command.back());
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.out, ContainsSubstring("Usage:") && ContainsSubstring(command.back()));
    CHECK(run_ampctl(with(command, "-h")).out == result.out);
  }
}

TEST_CASE("--version names the program, its version and LibTorch's") {
  const auto result = run_ampctl({"--version"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("ampctl 0.") && ContainsSubstring("LibTorch 2.11."));
}

TEST_CASE("Usage errors exit with 2, say one thing on standard error and suggest what was meant") {
  struct Case {
    std::vector<std::string> arguments;
    std::string expected;
  };
  const std::vector<Case> cases{
      {{}, "no command given"},
      {{"trian"}, "did you mean 'train'?"},
      {{"config"}, "expected one of show, validate, diff, schema"},
      {{"config", "vlidate"}, "did you mean 'validate'?"},
      {{"train", "--confg", "x.yaml"}, "did you mean '--config'?"},
      {{"train", "--train.epochs=3"}, "train.epochs=3"},
      {{"train"}, "-c"},
      {{"train", "x.yaml"}, "named with -c"},
      {{"train", "-c"}, "FILE missing"},
      {{"train", "-c", "/nowhere/x.yaml"}, "/nowhere/x.yaml"},
      {{"plan", "-c", "x.yaml", "--world-size", "0"}, "--world-size"},
      {{"env", "now"}, "unexpected word 'now'"},
      {{"inspect"}, "path is required"},
      {{"completion", "fish"}, "expected bash or zsh, found 'fish'"},
      {{"eval"}, "name a run's folder"},
  };
  for (const auto& [arguments, expected] : cases) {
    const auto result = run_ampctl(arguments);
    INFO(expected);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, ampctl::test::StartsWith("ampctl: error: ") && ContainsSubstring(expected));
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

TEST_CASE("A reader that goes away ends nothing noisily") {
  const auto result = run({"sh", "-c", kAmpctl + " config schema | head -1"});
  CHECK(result.exit_code == 0);
  CHECK(result.out == "{\n");
  CHECK(result.err.empty());
  // Where SIGPIPE is ignored, as under some service managers, the write fails instead.
  const auto ignored =
      run({"sh", "-c", "trap '' PIPE; { " + kAmpctl + " config schema; echo $? >&2; } | head -1"});
  CHECK(ignored.err == "0\n");
}

TEST_CASE("Closed standard streams and a full disk are survived and reported") {
  CHECK(run({"sh", "-c", kAmpctl + " --version >&-"}).exit_code == 0);
  const auto full = run({"sh", "-c", kAmpctl + " config schema > /dev/full"});
  CHECK(full.exit_code == 3);
  CHECK_THAT(full.err, ContainsSubstring("could not write to standard output"));
}

TEST_CASE("What is not written to a terminal has no colours") {
  CHECK(run_ampctl({"trian"}).err.find('\033') == std::string::npos);
  CHECK(run_ampctl({"env"}, {"AMPCTL_WORKER=/nowhere", "TERM=xterm"}).out.find('\033') == std::string::npos);
}
