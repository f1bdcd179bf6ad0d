#include "config/batch.h"

#include <optional>
#include <string>
#include <vector>

#include "support/catch.h"

using ampctl::config::BatchPlan;
using ampctl::config::ExperimentConfig;
using ampctl::config::resolve_batch;

namespace {

struct Row {
  std::optional<int64_t> micro;
  std::optional<int64_t> accumulation;
  std::optional<int64_t> global;
  int64_t world;
  BatchPlan expected;
  std::string problem;
};

}  // namespace

TEST_CASE("of micro-batch, accumulation and global batch any two give the third") {
  const std::optional<int64_t> no;
  const std::vector<Row> rows{
      {32, no, no, 1, {32, 1, 32}, ""},
      {32, 4, no, 1, {32, 4, 128}, ""},
      {32, 4, no, 8, {32, 4, 1024}, ""},
      {no, no, 256, 1, {256, 1, 256}, ""},
      {no, no, 256, 8, {32, 1, 256}, ""},
      {no, 4, 256, 2, {32, 4, 256}, ""},
      {32, no, 256, 1, {32, 8, 256}, ""},
      {32, no, 256, 8, {32, 1, 256}, ""},
      {32, 4, 128, 1, {32, 4, 128}, ""},
      {32, 2, 128, 2, {32, 2, 128}, ""},
      {no, no, no, 1, {0, 0, 0}, "data.batch_size: expected this or data.global_batch_size, found neither"},
      {no, 4, no, 1, {0, 0, 0}, "data.batch_size: expected this or data.global_batch_size, found neither"},
      {32,
       4,
       100,
       2,
       {0, 0, 0},
       "data.global_batch_size: expected batch_size 32 x gradient_accumulation_steps 4 x 2 processes = 256, "
       "found "
       "100; leave one of the three out"},
      {32,
       no,
       100,
       1,
       {0, 0, 0},
       "data.global_batch_size: expected a multiple of batch_size 32 x 1 process, found 100; change one of "
       "them"},
      {no,
       3,
       100,
       1,
       {0, 0, 0},
       "data.global_batch_size: expected a multiple of gradient_accumulation_steps 3 x 1 process, found 100; "
       "change "
       "one of them"},
      {64,
       no,
       32,
       1,
       {0, 0, 0},
       "data.global_batch_size: expected a multiple of batch_size 64 x 1 process, found 32; change one of "
       "them"},
  };
  for (const auto& row : rows) {
    ExperimentConfig config;
    config.data.batch_size = row.micro;
    config.train.gradient_accumulation_steps = row.accumulation;
    config.data.global_batch_size = row.global;
    std::vector<std::string> problems;
    const BatchPlan plan = resolve_batch(config, row.world, problems);
    INFO("micro " << row.micro.value_or(-1) << " accumulation " << row.accumulation.value_or(-1) << " global "
                  << row.global.value_or(-1) << " world " << row.world);
    CHECK(plan.micro == row.expected.micro);
    CHECK(plan.accumulation == row.expected.accumulation);
    CHECK(plan.global == row.expected.global);
    CHECK(problems ==
          (row.problem.empty() ? std::vector<std::string>{} : std::vector<std::string>{row.problem}));
  }
}
