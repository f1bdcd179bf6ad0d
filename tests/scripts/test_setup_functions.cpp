// Set-up says why it cannot go on and what to do, and does nothing twice.
#include "scripts/shell.h"
#include "support/catch.h"

using namespace ampctl::test;

namespace {

// Stands in for Python: answers what set-up asks and notes each installation.
void write_stub_python(const std::filesystem::path& folder) {
  const auto path = folder / "venv/bin/python";
  write(path,
        "#!/bin/sh\n"
        "case \"$1 $2\" in\n"
        "  '--version ') echo Python 3.11.2 ;;\n"
        "  '-m pip') echo installed >>\"$(dirname \"$0\")/../installations\" ;;\n"
        "esac\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

int installations(const std::filesystem::path& folder) {
  std::ifstream file(folder / "venv/installations");
  int count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

}  // namespace

TEST_CASE("an unsupported system is refused with what to install by hand") {
  const TempDir folder;
  write(folder.path() / "os-release", "ID=fedora\nVERSION_ID=40\n");
  const auto result = shell(folder.path(), "OS_RELEASE='" + (folder.path() / "os-release").string() +
                                               "'\nrequire_supported_system");
  CHECK(result.exit_code == 1);
  CHECK(contains(result.err, "this is fedora 40"));
  CHECK(contains(result.err, "libyaml-cpp-dev"));
  CHECK(contains(result.err, "torch=="));
}

TEST_CASE("Debian 12 and Ubuntu 24.04 are supported") {
  const TempDir folder;
  for (const auto* system : {"ID=debian\nVERSION_ID=\"12\"\n", "ID=ubuntu\nVERSION_ID=\"24.04\"\n"}) {
    write(folder.path() / "os-release", system);
    const auto result = shell(folder.path(), "OS_RELEASE='" + (folder.path() / "os-release").string() +
                                                 "'\nrequire_supported_system");
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("too little disk space is noticed before anything is written") {
  const TempDir folder;
  const auto result =
      shell(folder.path(), "require_space '" + folder.path().string() + "/not/yet' 99999999 'building'");
  CHECK(result.exit_code == 1);
  CHECK(contains(result.err, "building needs 99999999 GiB free"));
  CHECK(contains(result.err, "Free some space"));
}

TEST_CASE("a failed command is explained from what it printed") {
  const TempDir folder;
  const auto explained = [&](const std::string& printed) {
    return shell(folder.path(), "run_logged pip sh -c 'echo \"" + printed + "\"; exit 3'").err;
  };
  CHECK(contains(explained("E: Temporary failure resolving deb.debian.org"),
                 "package server could not be reached"));
  CHECK(contains(explained("OSError: [Errno 28] No space left on device"), "the disk is full"));
  CHECK(contains(explained("g++: fatal error: Killed signal terminated program cc1plus"), "AMPCTL_JOBS=1"));
  CHECK(contains(explained("something else"), "pip failed with exit code 3"));
  CHECK(contains(explained("something else"), (folder.path() / "logs/pip.log").string()));
}

TEST_CASE("Python packages are installed once, and again when a version changes") {
  const TempDir folder;
  write_stub_python(folder.path());
  REQUIRE(shell(folder.path(), "pip_install tests a==1").exit_code == 0);
  REQUIRE(shell(folder.path(), "pip_install tests a==1").exit_code == 0);
  CHECK(installations(folder.path()) == 1);
  REQUIRE(shell(folder.path(), "pip_install tests a==2").exit_code == 0);
  CHECK(installations(folder.path()) == 2);
}

TEST_CASE("an installation that failed is tried again") {
  const TempDir folder;
  write_stub_python(folder.path());
  CHECK(shell(folder.path(), "run_logged() { exit 1; }\npip_install tests a==1").exit_code == 1);
  REQUIRE(shell(folder.path(), "pip_install tests a==1").exit_code == 0);
  CHECK(installations(folder.path()) == 1);
}

TEST_CASE("the number of compilers is bounded by cores and memory, and can be set") {
  const TempDir folder;
  CHECK(shell(folder.path(), "nproc() { echo 8; }\nMIB_PER_JOB=1\nbuild_jobs").out == "8\n");
  CHECK(shell(folder.path(), "nproc() { echo 8; }\nMIB_PER_JOB=100000000\nbuild_jobs").out == "1\n");
  CHECK(shell(folder.path(), "AMPCTL_JOBS=5\nbuild_jobs").out == "5\n");
}

TEST_CASE("every script explains itself") {
  for (const auto* script : {"quickstart.sh", "test.sh", "lint.sh", "gpu_check.sh"}) {
    const auto result = run({"bash", (source_dir() / "scripts" / script).string(), "--help"});
    CHECK(result.exit_code == 0);
    CHECK(contains(result.out, std::string("Usage: scripts/") + script));
  }
}
