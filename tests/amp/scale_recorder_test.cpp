#include "amp/scale_recorder.h"

#include <cmath>

#include <ATen/ATen.h>

#include "base/error.h"
#include "support/devices.h"

#ifdef AMPCTL_WITH_CUDA
#include "support/captured.h"
#include "support/no_sync.h"
#endif

using namespace ampctl;
using amp::RecordedStep;
using amp::ScaleRecorder;

namespace {

constexpr int64_t kParameters = 5;

// What step i records: every value tells i, in the types that a training step uses.
RecordedStep step(int64_t i, c10::Device device) {
  const at::TensorOptions options(device);
  RecordedStep result;
  result.step = at::full({}, i, options.dtype(at::kLong));
  result.scale = at::full({}, 1024.0 + static_cast<double>(i), options.dtype(at::kFloat));
  result.growth_tracker = at::full({}, i + 7, options.dtype(at::kInt));
  result.found_inf = at::full({}, i % 2, options.dtype(at::kFloat));
  result.grad_norm = at::full({}, 0.5 * static_cast<double>(i), options.dtype(at::kDouble));
  result.loss_sum = at::full({}, -1.0 * static_cast<double>(i), options.dtype(at::kFloat));
  result.lr = at::full({}, 0.25, options.dtype(at::kFloat));
  result.samples = 100 + i;
  result.nonfinite = at::zeros({kParameters}, options.dtype(at::kByte));
  result.nonfinite[i % kParameters].fill_(1);
  result.nonfinite[kParameters - 1].fill_(1);
  return result;
}

void check_row(const amp::StepRow& row, int64_t i) {
  INFO("row of step " << i);
  CHECK(row.step == i);
  CHECK(row.scale == 1024.0 + static_cast<double>(i));
  CHECK(row.growth_tracker == i + 7);
  CHECK(row.found_inf == (i % 2 == 1));
  CHECK(row.grad_norm == 0.5 * static_cast<double>(i));
  CHECK(row.loss_sum == -1.0 * static_cast<double>(i));
  CHECK(row.lr == 0.25);
  CHECK(row.samples == 100 + i);
  const std::vector<int64_t> expected = i % kParameters == kParameters - 1
                                            ? std::vector<int64_t>{kParameters - 1}
                                            : std::vector<int64_t>{i % kParameters, kParameters - 1};
  CHECK(row.nonfinite == expected);
}

void check_rows_come_in_order(c10::Device device) {
  ScaleRecorder recorder(4, kParameters, device);
  CHECK(recorder.drain().rows().empty());
  int64_t next = 0;
  for (const int64_t count : {3, 4, 1, 0, 2}) {  // wraps around in all positions
    for (int64_t i = 0; i < count; ++i) recorder.record(step(next + i, device));
    const amp::PendingRows pending = recorder.drain();
    const auto rows = pending.rows();
    CHECK(pending.ready());
    CHECK(pending.lost() == 0);
    REQUIRE(rows.size() == static_cast<size_t>(count));
    for (const auto& row : rows) check_row(row, next++);
  }
}

void check_overwritten_rows_are_counted(c10::Device device) {
  ScaleRecorder recorder(3, kParameters, device);
  for (int64_t i = 0; i < 8; ++i) recorder.record(step(i, device));
  const amp::PendingRows pending = recorder.drain();
  CHECK(pending.lost() == 5);
  const auto rows = pending.rows();
  REQUIRE(rows.size() == 3);
  for (int64_t i = 0; i < 3; ++i) check_row(rows[static_cast<size_t>(i)], 5 + i);
  recorder.record(step(8, device));
  const amp::PendingRows next = recorder.drain();
  CHECK(next.lost() == 0);
  REQUIRE(next.rows().size() == 1);
  check_row(next.rows()[0], 8);
}

void check_a_drain_is_a_snapshot(c10::Device device) {
  ScaleRecorder recorder(2, kParameters, device);
  recorder.record(step(0, device));
  const amp::PendingRows pending = recorder.drain();
  for (int64_t i = 1; i < 5; ++i) recorder.record(step(i, device));
  const auto rows = pending.rows();
  REQUIRE(rows.size() == 1);
  check_row(rows[0], 0);
}

void check_absent_values(c10::Device device) {
  ScaleRecorder recorder(2, kParameters, device);
  RecordedStep bare;
  bare.step = at::full({}, 3, at::TensorOptions(device).dtype(at::kLong));
  bare.samples = 8;
  recorder.record(bare);
  const auto rows = recorder.drain().rows();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].step == 3);
  CHECK(rows[0].scale == 1.0);
  CHECK(rows[0].growth_tracker == 0);
  CHECK_FALSE(rows[0].found_inf);
  CHECK(std::isnan(rows[0].grad_norm));
  CHECK(std::isnan(rows[0].loss_sum));
  CHECK(std::isnan(rows[0].lr));
  CHECK(rows[0].nonfinite.empty());
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_rows_come_in_order,
                        "Every recorded step arrives once, in order, over the ring's end")
AMPCTL_DEVICE_TEST_CASE(check_overwritten_rows_are_counted, "Rows that were overwritten are counted as lost")
AMPCTL_DEVICE_TEST_CASE(check_a_drain_is_a_snapshot,
                        "Steps recorded after a drain do not change what it brings")
AMPCTL_DEVICE_TEST_CASE(check_absent_values, "Values that a run does not have read as 1, 0 or NaN")

TEST_CASE("A recorder refuses flags of another number of parameters, and impossible sizes") {
  ScaleRecorder recorder(2, kParameters + 1, c10::kCPU);
  CHECK_THROWS_AS(recorder.record(step(0, c10::kCPU)), Error);
  CHECK_THROWS_AS(recorder.record({}), Error);
  CHECK_THROWS_AS(ScaleRecorder(0, 1, c10::kCPU), Error);
}

#ifdef AMPCTL_WITH_CUDA
TEST_CASE("Recording and draining never wait for the GPU", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::Device device(at::kCUDA, 0);
  ScaleRecorder recorder(8, kParameters, device);
  const RecordedStep recorded = step(0, device);
  const test::NoSync no_sync;
  for (int i = 0; i < 8; ++i) recorder.record(recorded);
  const amp::PendingRows pending = recorder.drain();
  while (!pending.ready()) {
  }
  CHECK(pending.rows().size() == 8);
}

TEST_CASE("A replayed graph records the next row each time", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::Device device(at::kCUDA, 0);
  ScaleRecorder recorder(4, kParameters, device);
  RecordedStep recorded = step(0, device);
  test::Captured graph([&] {
    recorder.record(recorded);
    recorded.step.add_(1);
  });
  for (int i = 0; i < 3; ++i) graph.replay();
  const auto rows = recorder.drain().rows();
  REQUIRE(rows.size() == 3);
  for (int64_t i = 0; i < 3; ++i) CHECK(rows[static_cast<size_t>(i)].step == i);
}
#endif
