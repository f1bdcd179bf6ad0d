// The comparison with PyTorch: programs that stand in for both sides and for nvidia-smi.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "scripts/shell.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;

namespace {

namespace fs = std::filesystem;

// A machine with one GPU, an ampctl that reaches 900 images/s in 1 GiB, and peers that reach 600 in 2 GiB.
class Machine {
 public:
  Machine() {
    program("nvidia-smi", "echo 'Example GPU, 1.2'");
    program("ampctl",
            "echo 'ampctl: first step after 1 s' >&2\n"
            "echo '{\"variants\": [{\"result\": {\"samples_per_sec\": {\"median\": 900, \"spread\": 0.01}, "
            "\"memory\": {\"peak_allocated_gib\": 1.0}}}]}'");
    fs::create_directories(folder() / "bench" / "peers");
    for (const char* file : {"bench_peers.py", "comparisons.py", "contenders.py", "resnet50.yaml"})
      fs::copy(source_dir() / "bench" / file, folder() / "bench" / file);
    peer("'samples_per_sec': 600.0, 'spread': 0.02, 'peak_allocated_gib': 2.0");
  }

  void peer(const std::string& figures) const {
    std::ofstream(folder() / "bench" / "peers" / "resnet50.py")
        << "import json, sys\nfor line in ({}, {}): print(json.dumps(line), flush=True)\n"
        << "for _ in sys.stdin: print(json.dumps({" << figures << "}), flush=True)\n";
  }

  [[nodiscard]] ProcessResult run(std::vector<std::string> arguments) const {
    std::vector<std::string> command{python().empty() ? "python3" : python(),
                                     (folder() / "bench" / "bench_peers.py").string(), "--ampctl",
                                     (folder() / "ampctl").string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return ampctl::test::run(command, {"PATH=" + folder().string() + ":" + std::getenv("PATH")});
  }

  [[nodiscard]] const fs::path& folder() const { return dir_.path(); }

 private:
  void program(const std::string& name, const std::string& body) const {
    std::ofstream(folder() / name) << "#!/bin/sh\n" << body << "\n";
    fs::permissions(folder() / name, fs::perms::owner_all);
  }

  TempDir dir_;
};

}  // namespace

TEST_CASE("both sides run in turn, and a row says whether what is asked was met") {
  const Machine machine;
  const auto result = machine.run({"--rounds", "2", "--only", "f16_b256,small"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("round 2  f16_b256") && ContainsSubstring("medians of 2 rounds") &&
                             ContainsSubstring("Example GPU"));
  // 900 / 600 is 1.5: enough for the first row, not for five times.
  CHECK_THAT(result.out, ContainsSubstring("1.500    >= 1.5  met"));
  CHECK_THAT(result.out, ContainsSubstring("1.500      >= 5  NOT MET"));
}

TEST_CASE("rows that need a second GPU are left out, or refused when they are asked for") {
  const Machine machine;
  const auto refused = machine.run({"--only", "two_gpus"});
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, ContainsSubstring("two_gpus needs two GPUs, found 1"));
  CHECK(machine.run({"--only", "nothing"}).exit_code == 2);
}

TEST_CASE("a peer that fails ends the comparison with its own words") {
  const Machine machine;
  std::ofstream(machine.folder() / "bench" / "peers" / "resnet50.py") << "raise SystemExit('no such card')\n";
  const auto result = machine.run({"--quick", "--only", "f16_b256"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, ContainsSubstring("no such card"));
}
