// Every call that changes the disk is disturbed in turn: by SIGKILL before, in and after it, and by errors.
#include <algorithm>
#include <fstream>
#include <set>

#include "example.h"
#include "support/catch.h"
#include "support/process.h"

namespace {

using namespace ampctl;
namespace fs = std::filesystem;

struct Scenario {
  std::vector<std::string> commands;
  std::set<std::string> allowed;  // "<step><letter>" that find() may give from the first moment on
};

// Step 1 with letter a is there before.
const std::vector<Scenario> kScenarios{
    {{"save:2:b", "point:latest:2", "point:best:2", "retain:1"}, {"1a", "2b"}},
    {{"save:1:c", "point:latest:1", "retain:2"}, {"1a", "1c"}},
};

// A folder in memory where there is one: thousands of fsyncs of a real disk would take minutes.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string());
    pattern += "/ampctl-test-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    root_ = pattern;
    test::save_example(checkpoints("start"), 1, 'a');
    checkpoint::point(checkpoints("start"), "latest", checkpoints("start") / checkpoint::folder_name(1));
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] fs::path checkpoints(const std::string& name) const { return root_ / name / "checkpoints"; }

  // A copy of the starting point.
  [[nodiscard]] fs::path fresh() const {
    fs::remove_all(root_ / "now");
    fs::copy(root_ / "start", root_ / "now", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    return checkpoints("now");
  }

 private:
  fs::path root_;
};

test::ProcessResult run_disturbed(const fs::path& checkpoints, const Scenario& scenario,
                                  std::vector<std::string> env, bool with_exchange) {
  std::vector<std::string> command{AMPCTL_SAVE_PROGRAM, checkpoints.string()};
  command.insert(command.end(), scenario.commands.begin(), scenario.commands.end());
  env.emplace_back("LD_PRELOAD=" AMPCTL_IO_FAULT_LIBRARY);
  if (!with_exchange) env.emplace_back("AMPCTL_IO_NO_EXCHANGE=1");
  return test::run(command, env);
}

std::vector<std::string> traced(const fs::path& checkpoints, const Scenario& scenario, bool with_exchange) {
  const fs::path file = checkpoints.parent_path() / "trace";
  const auto result =
      run_disturbed(checkpoints, scenario, {"AMPCTL_IO_TRACE=" + file.string()}, with_exchange);
  REQUIRE(result.err.empty());
  REQUIRE(result.exit_code == 0);
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// What find("auto") gives, as "<step><letter>"; verified by find() itself.
std::string found(const fs::path& checkpoints, std::vector<std::string>& warnings) {
  const auto folder =
      checkpoint::find(checkpoints, "auto", [&](const auto& text) { warnings.push_back(text); });
  if (!folder) return "nothing";
  for (const int64_t step : {1, 2}) {
    if (folder->filename().string().find(checkpoint::folder_name(step)) == std::string::npos) continue;
    return std::to_string(step) + test::letter_of(*folder, step);
  }
  return "something else";
}

std::vector<std::string> hidden_names(const fs::path& checkpoints) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    if (entry.path().filename().string().starts_with('.')) names.push_back(entry.path().filename().string());
  }
  return names;
}

void check_links(const fs::path& checkpoints) {
  for (const char* link : {"latest", "best"}) {
    if (!fs::is_symlink(checkpoints / link)) continue;
    INFO(link);
    const auto name = fs::read_symlink(checkpoints / link).string();
    CHECK((fs::exists(checkpoints / link) || fs::exists(checkpoints / (".old-" + name))));
  }
}

// Any save or retention afterwards leaves neither leftovers nor damage.
void check_recovery(const fs::path& checkpoints) {
  test::save_example(checkpoints, 2, 'z');
  checkpoint::retain(checkpoints, 2);
  std::vector<std::string> warnings;
  CHECK(found(checkpoints, warnings) == "2z");
  CHECK(warnings.empty());
  CHECK(hidden_names(checkpoints).empty());
  for (const int64_t step : checkpoint::list(checkpoints)) {
    checkpoint::verify(checkpoints / checkpoint::folder_name(step));
  }
}

void disturb_each_call(const std::string& fault,
                       const std::function<void(const fs::path&, const test::ProcessResult&)>& check) {
  const Scratch scratch;
  for (const bool with_exchange : {true, false}) {
    for (const auto& scenario : kScenarios) {
      const size_t calls = traced(scratch.fresh(), scenario, with_exchange).size();
      REQUIRE(calls > 20);
      for (size_t n = 1; n <= calls; ++n) {
        const fs::path checkpoints = scratch.fresh();
        const auto result = run_disturbed(
            checkpoints, scenario, {"AMPCTL_IO_FAULT=" + std::to_string(n) + ":" + fault}, with_exchange);
        INFO(scenario.commands[0] << ", " << fault << " at call " << n << " of " << calls << ", exchange "
                                  << with_exchange << ", exit code " << result.exit_code
                                  << ", says: " << result.err);
        std::vector<std::string> warnings;
        CHECK(scenario.allowed.contains(found(checkpoints, warnings)));
        CHECK(warnings.empty());
        check_links(checkpoints);
        check(checkpoints, result);
        check_recovery(checkpoints);
      }
    }
  }
}

constexpr int kKilled = 128 + 9;

}  // namespace

TEST_CASE("a process killed before, in or after any write, fsync or rename leaves a loadable checkpoint") {
  for (const char* fault : {"kill-before", "kill"}) {
    disturb_each_call(fault, [](const fs::path&, const auto& result) { CHECK(result.exit_code == kKilled); });
  }
  // Only writes are torn, so other calls go undisturbed.
  disturb_each_call("torn", [](const fs::path&, const auto& result) {
    CHECK((result.exit_code == kKilled || result.exit_code == 0));
  });
}

TEST_CASE("a full disk or an I/O error at any call is reported and leaves no temporary file") {
  for (const char* fault : {"enospc", "eio"}) {
    disturb_each_call(fault, [](const fs::path& checkpoints, const auto& result) {
      CHECK(result.exit_code == 3);
      CHECK(result.err.find(checkpoints.string()) != std::string::npos);
      CHECK(hidden_names(checkpoints).empty());
    });
  }
}

TEST_CASE("a disk that stays full stops a save with the space needed and free, and nothing is left behind") {
  disturb_each_call("full", [](const fs::path& checkpoints, const auto& result) {
    if (result.exit_code == 0) return;  // only renames and removals were left to do
    CHECK(result.exit_code == 3);
    CHECK(result.err.find("No space left on device") != std::string::npos);
    CHECK(hidden_names(checkpoints).empty());
  });
  const Scratch scratch;
  const auto result = run_disturbed(scratch.fresh(), kScenarios[0], {"AMPCTL_IO_FAULT=5:full"}, true);
  CHECK(result.err.find("the file needs ") != std::string::npos);
  CHECK(result.err.find(" are free") != std::string::npos);
  CHECK(result.err.find("older ones are untouched") != std::string::npos);
}

TEST_CASE("a disk that is gone from any call on leaves the older checkpoint or the newer one") {
  disturb_each_call("gone", [](const fs::path&, const auto& result) { CHECK(result.exit_code == 3); });
}

TEST_CASE("short and interrupted writes are continued") {
  for (const char* fault : {"short", "eintr"}) {
    disturb_each_call(fault, [](const fs::path& checkpoints, const auto& result) {
      CHECK(result.exit_code == 0);
      CHECK(hidden_names(checkpoints).empty());
    });
  }
}

TEST_CASE(
    "data reaches the disk before the manifest, the manifest before the name, the name before the link") {
  const Scratch scratch;
  const fs::path checkpoints = scratch.fresh();
  const auto trace = traced(checkpoints, kScenarios[0], true);
  const std::string temporary = (checkpoints / ".tmp-step-00000002").string();
  const auto last = [&](const std::string& line) {
    const auto at = std::find(trace.rbegin(), trace.rend(), line);
    INFO(line);
    REQUIRE(at != trace.rend());
    return trace.rend() - at;
  };
  const auto first = [&](const std::string& line) {
    return std::find(trace.begin(), trace.end(), line) - trace.begin() + 1;
  };
  const auto renamed = last("rename " + temporary + " " + (checkpoints / "step-00000002").string());
  const auto manifest = first("create " + temporary + "/manifest.json");
  for (const char* name : {checkpoint::kModelFile, checkpoint::kOptimizerFile, checkpoint::kStateFile}) {
    const std::string path = temporary + "/" + name;
    CHECK(last("write " + path) < last("fsync " + path));
    CHECK(last("fsync " + path) < manifest);
  }
  CHECK(first("fsync " + temporary) < manifest);
  CHECK(last("write " + temporary + "/manifest.json") < last("fsync " + temporary + "/manifest.json"));
  CHECK(last("fsync " + temporary + "/manifest.json") < last("fsync " + temporary));
  CHECK(last("fsync " + temporary) < renamed);
  REQUIRE(static_cast<size_t>(renamed) < trace.size());
  CHECK(trace[static_cast<size_t>(renamed)] == "fsync " + checkpoints.string());
  const std::string link = (checkpoints / ".tmp-latest").string();
  CHECK(renamed + 1 < last("symlink step-00000002 " + link));
  CHECK(last("symlink step-00000002 " + link) <
        last("rename " + link + " " + (checkpoints / "latest").string()));
}
