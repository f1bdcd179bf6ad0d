#include <string>
#include <vector>

#include "events/sinks.h"
#include "samples.h"
#include "support/catch.h"
#include "support/process.h"
#include "support/skip.h"

namespace ampctl::events {
namespace {

using test::sample_evaluation;
using test::sample_step;

constexpr const char* kHeader =
    "epoch,step,train_loss,eval_loss,eval_top1,eval_top5,lr,scale,skipped_steps,samples_per_sec,seconds\r";

// Seconds depend on the clock: they are checked to be there, and cut off.
std::string without_seconds(const std::string& row) {
  REQUIRE(row.back() == '\r');
  const auto comma = row.rfind(',');
  REQUIRE(std::stod(row.substr(comma + 1)) >= 0.0);
  return row.substr(0, comma);
}

TEST_CASE("summary.csv has one row an evaluation, with the mean training loss since the last row") {
  const test::TempDir dir;
  const auto path = dir.path() / "summary.csv";
  const auto sink = make_csv(path);
  sink->on_event(test::sample_run());
  sink->on_event(sample_step(30, 2.0));
  sink->on_event(sample_step(45, 1.0));
  sink->on_event(sample_evaluation(45));
  sink->on_event(sample_step(90, 0.25));
  sink->on_event(sample_evaluation(90));
  const auto lines = test::read_lines(path);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == kHeader);
  // (30 * 2 + 15 * 1) / 45
  CHECK(without_seconds(lines[1]) == "0,45,1.6666667,0.312,91.234,99.1,0.1,65536,2,1234");
  CHECK(without_seconds(lines[2]) == "1,90,0.25,0.312,91.234,99.1,0.1,65536,2,1234");
}

TEST_CASE("an epoch that ends without evaluation gets its row, a broken-off one none") {
  const test::TempDir dir;
  const auto path = dir.path() / "summary.csv";
  const auto sink = make_csv(path);
  sink->on_event(test::sample_run());
  StepEnd last = sample_step(45, 1.0);
  last.closes_epoch = true;
  sink->on_event(last);
  CHECK(test::read_lines(path).size() == 2);  // at once: the run may be killed now
  sink->on_event(sample_step(60, 0.5));
  RunEnded ended;
  ended.outcome = RunEnded::Outcome::preempted;
  sink->on_event(ended);
  const auto lines = test::read_lines(path);
  REQUIRE(lines.size() == 2);
  CHECK(without_seconds(lines[1]) == "0,45,1,,,,0.1,65536,2,1234");
}

TEST_CASE("the header is written once, also when the run continues") {
  const test::TempDir dir;
  const auto path = dir.path() / "summary.csv";
  make_csv(path).reset();
  make_csv(path)->on_event(sample_evaluation(45));
  const auto lines = test::read_lines(path);
  REQUIRE(lines.size() == 2);
  CHECK(without_seconds(lines[1]) == "0,45,,0.312,91.234,99.1,,,,");
}

TEST_CASE("a summary.csv that was deleted starts again with its header") {
  const test::TempDir dir;
  const auto path = dir.path() / "summary.csv";
  const auto sink = make_csv(path);
  std::filesystem::remove(path);
  CHECK_THROWS(sink->on_event(sample_evaluation(45)));
  const auto lines = test::read_lines(path);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == kHeader);
}

TEST_CASE("Python's csv reader finds equal columns in every row") {
  if (test::python().empty()) return test::skip("no Python was found; scripts/test.sh installs it");
  const test::TempDir dir;
  const auto path = dir.path() / "summary.csv";
  const auto sink = make_csv(path);
  StepEnd first = sample_step(45, 1.0);
  first.closes_epoch = true;
  sink->on_event(first);
  sink->on_event(sample_step(90, 1.0));
  sink->on_event(sample_evaluation(90));
  const std::string code =
      "import csv, sys\n"
      "rows = list(csv.DictReader(open(sys.argv[1], newline='')))\n"
      "assert len(rows) == 2 and all(None not in r and None not in r.values() for r in rows), rows\n"
      "assert rows[0]['eval_top1'] == '' and float(rows[1]['eval_top1']) == 91.234\n";
  const auto result = test::run({test::python(), "-c", code, path.string()});
  INFO(result.err);
  CHECK(result.exit_code == 0);
}

}  // namespace
}  // namespace ampctl::events
