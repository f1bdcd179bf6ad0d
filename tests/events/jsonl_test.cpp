#include <cmath>
#include <csignal>
#include <limits>
#include <string>

#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/error.h"
#include "events/sinks.h"
#include "samples.h"
#include "support/catch.h"
#include "support/process.h"
#include "support/skip.h"

namespace ampctl::events {
namespace {

using test::sample_evaluation;
using test::sample_step;

TEST_CASE("metrics.jsonl holds the names that the field uses, one object a line") {
  const test::TempDir dir;
  const auto path = dir.path() / "run" / "metrics.jsonl";
  const auto sink = make_jsonl(path);
  sink->on_event(test::sample_run());
  auto step = sample_step(50);
  step.max_allocated_gib = 10.5;
  sink->on_event(step);
  sink->on_event(sample_evaluation(50));
  sink->on_event(test::sample_overflow(51, 4.0));
  const auto lines = test::read_lines(path);  // while the sink is open: each line is written at once
  REQUIRE(lines.size() == 2);
  const auto train = nlohmann::json::parse(lines[0]);
  CHECK(train["step"] == 50);
  CHECK(train["epoch"] == 1);
  CHECK(train["train/loss"] == 0.5);
  CHECK(train["lr"] == 0.1);
  CHECK(train["amp/scale"] == 65536.0);
  CHECK(train["amp/skipped_steps"] == 2);
  CHECK(train["grad/norm"] == 2.5);
  CHECK(train["throughput/samples_per_sec"] == 1234.0);
  CHECK(train["time/data_wait"] == 0.003);
  CHECK(train["memory/max_allocated_gib"] == 10.5);
  CHECK(train["memory/max_reserved_gib"] == 0.0);
  constexpr double kYear2020 = 1577836800.0;
  CHECK(train["wall_time"].get<double>() > kYear2020);
  const auto eval = nlohmann::json::parse(lines[1]);
  CHECK(eval["step"] == 50);
  CHECK(eval["eval/loss"] == 0.312);
  CHECK(eval["eval/top1"] == 91.234);
  CHECK(eval["eval/top5"] == 99.1);
}

TEST_CASE("values that are not finite are null, and strict JSON readers take every line") {
  const test::TempDir dir;
  const auto path = dir.path() / "metrics.jsonl";
  const auto sink = make_jsonl(path);
  auto step = sample_step(50, std::numeric_limits<double>::quiet_NaN());
  step.grad_norm = std::numeric_limits<double>::infinity();
  sink->on_event(step);
  sink->on_event(sample_evaluation(50));
  if (test::python().empty()) return test::skip("no Python was found; scripts/test.sh installs it");
  const std::string code =
      "import json, sys\n"
      "def refuse(c): raise ValueError(c)\n"
      "lines = [json.loads(l, parse_constant=refuse) for l in open(sys.argv[1])]\n"
      "assert len(lines) == 2\n"
      "assert lines[0]['train/loss'] is None and lines[0]['grad/norm'] is None\n"
      "assert lines[1]['eval/top1'] == 91.234\n";
  const auto result = test::run({test::python(), "-c", code, path.string()});
  INFO(result.err);
  CHECK(result.exit_code == 0);
}

TEST_CASE("a second sink on the same file appends") {
  const test::TempDir dir;
  const auto path = dir.path() / "metrics.jsonl";
  make_jsonl(path)->on_event(sample_step(50));
  make_jsonl(path)->on_event(sample_step(100));
  CHECK(test::read_lines(path).size() == 2);
}

TEST_CASE("a full disk is an environment error each time, and the file cannot be blamed on the run") {
  const auto sink = make_jsonl("/dev/full");
  CHECK_THROWS_AS(sink->on_event(sample_step(50)), Error);
  CHECK_THROWS_AS(sink->on_event(sample_step(100)), Error);
}

TEST_CASE("a line that fits only in part leaves no trace, and later lines are whole") {
  const test::TempDir dir;
  const auto path = dir.path() / "metrics.jsonl";
  const auto sink = make_jsonl(path);
  sink->on_event(sample_step(50));
  const auto length = test::read_all(path).size();

  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = before;
  tight.rlim_cur = length + 20;  // the next line's first 20 bytes
  setrlimit(RLIMIT_FSIZE, &tight);
  CHECK_THROWS_AS(sink->on_event(sample_step(100)), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  CHECK(test::read_all(path).size() == length);
  sink->on_event(sample_step(150));
  const auto lines = test::read_lines(path);
  REQUIRE(lines.size() == 2);
  CHECK(nlohmann::json::parse(lines[1])["step"] == 150);
}

TEST_CASE("a removed run folder comes back with the lines that follow, and is told once") {
  const test::TempDir dir;
  const auto path = dir.path() / "run" / "metrics.jsonl";
  const auto sink = make_jsonl(path);
  sink->on_event(sample_step(50));
  std::filesystem::remove_all(path.parent_path());
  CHECK(test::error_of([&] { sink->on_event(sample_step(100)); }).find("was deleted") != std::string::npos);
  CHECK_NOTHROW(sink->on_event(sample_step(150)));
  CHECK(test::read_lines(path).size() == 2);
}

TEST_CASE("a moved run folder is followed") {
  const test::TempDir dir;
  const auto path = dir.path() / "run" / "metrics.jsonl";
  const auto sink = make_jsonl(path);
  std::filesystem::rename(path.parent_path(), dir.path() / "moved");
  CHECK_NOTHROW(sink->on_event(sample_step(50)));
  CHECK(test::read_lines(dir.path() / "moved" / "metrics.jsonl").size() == 1);
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("a file that cannot be opened is refused with its path") {
  CHECK(test::error_of([&] { (void)make_jsonl("/proc/no/metrics.jsonl"); }).find("/proc/no/metrics.jsonl") !=
        std::string::npos);
}

}  // namespace
}  // namespace ampctl::events
