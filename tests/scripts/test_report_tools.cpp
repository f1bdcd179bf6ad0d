// The count that closes a test run, and the check of who includes whom.
#include <sstream>

#include "scripts/shell.h"
#include "support/catch.h"

using namespace ampctl::test;

namespace {

// One program as ctest reports it.
std::string program(const std::string& name, const std::string& status, const std::string& output) {
  return "<testcase name=\"" + name + "\" status=\"" + status + "\"><system-out>" + output +
         "</system-out></testcase>";
}

ProcessResult count(const std::string& programs) {
  const TempDir folder;
  const auto report = folder.path() / "ctest.xml";
  write(report, "<testsuite>" + programs + "</testsuite>");
  return python_script("count_tests.py", report.string());
}

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::string last;
  while (std::getline(lines, line)) last = line;
  return last;
}

}  // namespace

TEST_CASE("test cases of all programs are added up, skipped ones apart") {
  const auto result = count(program("base", "run", "All tests passed (12 assertions in 3 test cases)\n") +
                            program("amp", "run",
                                    "SKIPPED: a kernel: no GPU\nSKIPPED: a kernel: no GPU\n"
                                    "All tests passed (9 assertions in 4 test cases)\n"));
  CHECK(result.exit_code == 0);
  CHECK(last_line(result.out) == "6 passed, 0 failed, 1 skipped");
  CHECK(contains(result.out, "skipped: a kernel: no GPU"));
}

TEST_CASE("failed test cases are counted as Catch2 2 and 3 report them, and fail the run") {
  const auto result = count(
      program("two", "fail", "test cases: 5 | 3 passed | 2 failed\nassertions: 9 | 7 passed | 2 failed\n") +
      program("three", "fail", "test cases:  5 |  4 passed | 1 failed\n"));
  CHECK(result.exit_code == 1);
  CHECK(last_line(result.out) == "7 passed, 3 failed, 0 skipped");
}

TEST_CASE("a program that ended before its closing line is a failed test case") {
  const auto result = count(program("crashed", "fail", "terminate called\n") +
                            program("base", "run", "All tests passed (1 assertion in 1 test case)\n"));
  CHECK(result.exit_code == 1);
  CHECK(last_line(result.out) == "1 passed, 1 failed, 0 skipped");
  CHECK(contains(result.out, "crashed: 1 failed"));
}

TEST_CASE("a missing or empty report is a failure") {
  CHECK(python_script("count_tests.py", "/nonexistent/ctest.xml").exit_code == 1);
  CHECK(count("").exit_code == 1);
}

TEST_CASE("an include against the direction of dependencies is reported with its line") {
  const TempDir project;
  write(project.path() / "apps/worker/main.cpp", "#include \"amp/scaler.h\"\n");
  write(project.path() / "src/amp/scaler.h", "#pragma once\n#include \"train/trainer.h\"\n");
  write(project.path() / "src/events/events.h", "#include <ATen/core/Tensor.h>\n");
  write(project.path() / "src/model/resnet.h", "#include <torch/torch.h>\n#include \"nn/layer.h\"\n");
  const auto result = python_script("check_includes.py", project.path().string());
  CHECK(result.exit_code == 1);
  CHECK(contains(result.out, "src/amp/scaler.h:2: amp may not include train"));
  CHECK(contains(result.out, "src/events/events.h:1: events is free of LibTorch"));
  CHECK(contains(result.out, "src/model/resnet.h:1: <torch/torch.h>"));
  CHECK(contains(result.out, "includes: 4 files, 3 errors"));
}

TEST_CASE("an overlong file is a warning only") {
  const TempDir project;
  write(project.path() / "src/base/long.h", std::string(121, '\n'));
  const auto result = python_script("check_includes.py", project.path().string());
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "src/base/long.h: 121 lines, more than 120"));
}
