#include "events/truncate.h"

#include <fstream>
#include <string>

#include <sys/stat.h>

#include "base/error.h"
#include "events/sinks.h"
#include "samples.h"
#include "support/catch.h"
#include "support/process.h"

namespace ampctl::events {
namespace {

using test::read_all;
using test::read_lines;
using test::sample_evaluation;
using test::sample_step;

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST_CASE("lines after the step that a run continues from are dropped") {
  const test::TempDir dir;
  const auto jsonl = dir.path() / "metrics.jsonl";
  const auto csv = dir.path() / "summary.csv";
  for (const auto& sink : {make_jsonl(jsonl).release(), make_csv(csv).release()}) {
    const std::unique_ptr<EventSink> owned(sink);
    for (const int64_t step : {45, 90, 135}) {
      owned->on_event(sample_step(step));
      owned->on_event(sample_evaluation(step));
    }
  }
  const auto lines = read_lines(jsonl);
  const auto rows = read_lines(csv);
  REQUIRE(lines.size() == 6);
  REQUIRE(rows.size() == 4);
  truncate_after(jsonl, 90);
  truncate_after(csv, 90);
  CHECK(read_lines(jsonl) == std::vector<std::string>(lines.begin(), lines.begin() + 4));
  CHECK(read_lines(csv) == std::vector<std::string>(rows.begin(), rows.begin() + 3));
  truncate_after(jsonl, 0);
  truncate_after(csv, 0);
  CHECK(read_all(jsonl).empty());
  CHECK(read_lines(csv).size() == 1);
}

TEST_CASE("an evaluation that is not in the checkpoint goes, the step before it stays") {
  const test::TempDir dir;
  const auto jsonl = dir.path() / "metrics.jsonl";
  const auto csv = dir.path() / "summary.csv";
  {
    const auto lines = make_jsonl(jsonl);
    const auto rows = make_csv(csv);
    for (const int64_t step : {45, 90}) {
      for (const auto* sink : {&lines, &rows}) {
        (*sink)->on_event(sample_step(step));
        (*sink)->on_event(sample_evaluation(step));
      }
    }
  }
  truncate_after(jsonl, 90, false);
  truncate_after(csv, 90, false);
  const auto lines = read_lines(jsonl);
  REQUIRE(lines.size() == 3);
  CHECK(lines[1].find("eval/loss") != std::string::npos);
  CHECK(lines[2].find("train/loss") != std::string::npos);
  CHECK(read_lines(csv).size() == 2);
}

TEST_CASE("a run that is killed and continued shows each step once") {
  const test::TempDir dir;
  const auto path = dir.path() / "metrics.jsonl";
  {
    const auto killed = make_jsonl(path);
    for (const int64_t step : {10, 20, 30, 40}) killed->on_event(sample_step(step));
  }
  truncate_after(path, 20);
  const auto continued = make_jsonl(path);
  for (const int64_t step : {30, 40, 50}) continued->on_event(sample_step(step));
  std::string steps;
  for (const auto& line : read_lines(path)) steps += line.substr(0, line.find(','));
  CHECK(steps == R"({"step":10{"step":20{"step":30{"step":40{"step":50)");
}

TEST_CASE("a line that a crash cut off goes, whatever its step") {
  const test::TempDir dir;
  const auto jsonl = dir.path() / "metrics.jsonl";
  write(jsonl, "{\"step\":1}\n{\"step\":2,\"train/lo");
  truncate_after(jsonl, 100);
  CHECK(read_all(jsonl) == "{\"step\":1}\n");
  const auto csv = dir.path() / "summary.csv";
  write(csv, "epoch,step,lr\r\n0,1,0.1\r\n0,2");
  truncate_after(csv, 100);
  CHECK(read_all(csv) == "epoch,step,lr\r\n0,1,0.1\r\n");
  write(csv, "epoch,st");
  truncate_after(csv, 100);
  CHECK(read_all(csv).empty());
}

TEST_CASE("a file with nothing to drop is not touched, a missing one is fine") {
  const test::TempDir dir;
  const auto path = dir.path() / "metrics.jsonl";
  write(path, "{\"step\":1}\n");
  struct stat before {};
  stat(path.c_str(), &before);
  truncate_after(path, 1);
  struct stat after {};
  stat(path.c_str(), &after);
  CHECK(before.st_ino == after.st_ino);
  CHECK_NOTHROW(truncate_after(dir.path() / "absent.csv", 1));
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("a CSV file that is not this program's is refused with a way out and left alone") {
  const test::TempDir dir;
  const auto path = dir.path() / "summary.csv";
  write(path, "name,value\nx,1\n");
  CHECK(test::error_of([&] { truncate_after(path, 1); }).find("column 'step'") != std::string::npos);
  CHECK(read_all(path) == "name,value\nx,1\n");
}

}  // namespace
}  // namespace ampctl::events
