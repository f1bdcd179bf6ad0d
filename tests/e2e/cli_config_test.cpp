#include <algorithm>

#include <nlohmann/json.hpp>

#include "e2e/programs.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;
using ampctl::test::ContainsSubstring;

namespace {

struct Folder {
  TempDir dir;
  std::string experiment = (dir.path() / "small.yaml").string();
  Folder() { write_text(experiment, small_experiment()); }
};

// The value of a dotted key with two parts, in the YAML that `config show` prints.
std::string shown(const Folder& folder, const std::vector<std::string>& more, const std::string& line) {
  std::vector<std::string> arguments{"config", "show", "-c", folder.experiment};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto result = run_ampctl(arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto at = result.out.find(line + ": ");
  REQUIRE(at != std::string::npos);
  const auto begin = at + line.size() + 2;
  return result.out.substr(begin, result.out.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("config validate accepts a right file") {
  const Folder folder;
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"config", "validate", "-c", folder.experiment}, {"config", "validate", folder.experiment}}) {
    const auto result = run_ampctl(arguments);
    CHECK(result.exit_code == 0);
    CHECK(result.out == folder.experiment + ": valid\n");
    CHECK(result.err.empty());
  }
}

TEST_CASE("config validate reports all five kinds of mistake in one go, with position and remedy") {
  const TempDir dir;
  const auto file = (dir.path() / "bad.yaml").string();
  write_text(file,
             "model: {name: resnet19}\n"
             "data:\n"
             "  batch_size: many\n"
             "  num_wrokers: 4\n"
             "  train: {format: synthetic}\n"
             "train: {epochs: 3, label_smoothing: 1.5}\n"
             "lr_schedule: {name: cosin}\n");
  const auto result = run_ampctl({"config", "validate", "-c", file});
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, ContainsSubstring(file + ":1:15: model.name: ") &&
                             ContainsSubstring("did you mean 'resnet18'?"));
  CHECK_THAT(result.err,
             ContainsSubstring(file + ":3:15: data.batch_size: ") && ContainsSubstring("found 'many'"));
  CHECK_THAT(result.err,
             ContainsSubstring(file + ":4:3: data.num_wrokers: ") && ContainsSubstring("num_workers'?"));
  CHECK_THAT(result.err,
             ContainsSubstring(file + ":6:37: train.label_smoothing: ") && ContainsSubstring("found '1.5'"));
  CHECK_THAT(result.err, ContainsSubstring(file + ":7:21: lr_schedule.name: ") &&
                             ContainsSubstring("did you mean 'cosine'?"));
}

TEST_CASE("Overrides are told apart from files and named in messages") {
  const Folder folder;
  const auto result = run_ampctl({"train", "-c", folder.experiment, "optimizer.lr=fast"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("optimizer.lr=fast") && ContainsSubstring("found 'fast'"));
}

TEST_CASE("Of several settings of a field the last one typed wins, however it was written") {
  const Folder folder;
  CHECK(shown(folder, {}, "seed") == "42");
  CHECK(shown(folder, {"--seed", "7"}, "seed") == "7");
  CHECK(shown(folder, {"--seed", "7", "seed=8"}, "seed") == "8");
  CHECK(shown(folder, {"seed=8", "--seed", "7"}, "seed") == "7");
  CHECK(shown(folder, {"--set", "seed=1", "seed=2", "--set", "seed=3"}, "seed") == "3");
  CHECK(shown(folder, {"--set=seed=1", "--set", "seed=2", "seed=4"}, "seed") == "4");
}

TEST_CASE("Shortcuts take their values as text") {
  const Folder folder;
  CHECK_THAT(shown(folder, {"--output", "runs/it's #1: [new]"}, "output"),
             ContainsSubstring("runs/it's #1: [new]"));
  CHECK_THAT(shown(folder, {"--resume", "best"}, "resume"), ContainsSubstring("best"));
}

TEST_CASE("Later files win over earlier ones, and overrides over files") {
  const Folder folder;
  const auto second = (folder.dir.path() / "second.yaml").string();
  write_text(second, "seed: 100\n");
  CHECK(shown(folder, {"-c", second}, "seed") == "100");
  CHECK(shown(folder, {"--config", second, "seed=5"}, "seed") == "5");
}

TEST_CASE("Flags take '-' and '_' alike") {
  const Folder folder;
  for (const char* flag : {"--world-size", "--world_size"}) {
    const auto result = run_ampctl({"plan", "-c", folder.experiment, flag, "2", "--json"});
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.out, ContainsSubstring("\"global_batch\": 20"));
  }
}

TEST_CASE("config show prints what can be read again unchanged") {
  const Folder folder;
  const auto first = run_ampctl({"config", "show", "-c", folder.experiment, "optimizer.lr=0.3"});
  const auto again = (folder.dir.path() / "again.yaml").string();
  write_text(again, first.out);
  CHECK(run_ampctl({"config", "show", "-c", again}).out == first.out);
  const auto commented =
      run_ampctl({"config", "show", "-c", folder.experiment, "optimizer.lr=0.3", "--comments"});
  CHECK_THAT(commented.out, ContainsSubstring("# "));
  write_text(again, commented.out);
  CHECK(run_ampctl({"config", "show", "-c", again}).out == first.out);
}

TEST_CASE("config diff shows what differs between files or runs") {
  const Folder folder;
  const auto run = folder.dir.path() / "run";
  write_text(run / "config.yaml",
             run_ampctl({"config", "show", "-c", folder.experiment, "seed=43", "optimizer.lr=0.3"}).out);
  const auto result = run_ampctl({"config", "diff", folder.experiment, run.string(), "--json"});
  CHECK(result.exit_code == 0);
  const auto differences = nlohmann::json::parse(result.out);
  REQUIRE(differences.size() == 2);
  CHECK(differences[0].at("key") == "seed");
  CHECK(differences[0].at("left") == "42");
  CHECK(differences[0].at("right") == "43");
  CHECK(differences[1].at("key") == "optimizer.lr");
  CHECK_THAT(run_ampctl({"config", "diff", folder.experiment, run.string()}).out,
             ContainsSubstring("optimizer.lr"));
  CHECK(run_ampctl({"config", "diff", run.string(), run.string()}).out == "no differences\n");

  const auto missing = run_ampctl({"config", "diff", folder.experiment, folder.dir.path().string()});
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, ContainsSubstring("holds no config.yaml"));
}

TEST_CASE("config schema is JSON, and config docs is there without being advertised") {
  CHECK(nlohmann::json::parse(run_ampctl({"config", "schema"}).out).contains("properties"));
  CHECK_THAT(run_ampctl({"config", "docs"}).out, ContainsSubstring("label_smoothing"));
  CHECK(run_ampctl({"config", "--help"}).out.find("docs/configuration.md") == std::string::npos);
}
