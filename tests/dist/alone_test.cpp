#include <chrono>
#include <future>
#include <string>

#include <ATen/ops/ones.h>

#include "base/error.h"
#include "dist/agreement.h"
#include "dist/collectives.h"
#include "dist/consistency.h"
#include "dist/distributed_data_parallel.h"
#include "dist/monitor.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace dist = ampctl::dist;
using ampctl::test::ContainsSubstring;

TEST_CASE("in a world of one nothing is changed and nobody is waited for") {
  dist::World world = dist::World::alone(c10::kCPU);
  CHECK(world.size() == 1);
  CHECK(world.is_main());
  at::Tensor value = at::ones({2}).set_requires_grad(true);
  at::Tensor sum = at::ones({2});
  dist::all_reduce_sum_(world, sum);
  dist::all_reduce_max_(world, sum);
  dist::broadcast_(world, {sum});
  dist::barrier(world);
  CHECK(sum.eq(1).all().item<bool>());
  CHECK(dist::gather_texts(world, "me") == std::vector<std::string>{"me"});
  dist::require_equal(world, {{"lr", "0.1"}}, "the plan");
  dist::require_no_drift(world, 1, 1, 0, {{"value", value}});

  dist::DistributedDataParallel ddp(world, {{"value", value}}, {}, {});
  ddp.prepare_forward();
  ddp.prepare_backward({});
  value.sum().backward();
  CHECK(value.grad().eq(1).all().item<bool>());

  dist::Agreement agreement(world);
  CHECK(agreement.exchange(dist::Wish::stop) == dist::Wish::stop);
  CHECK(agreement.exchange(dist::Wish::go_on) == dist::Wish::go_on);
  CHECK(agreement.settle() == dist::Wish::go_on);
  world.leave();
}

TEST_CASE("a process alone that makes no progress is reported once, with its step and phase") {
  const dist::World world = dist::World::alone(c10::kCPU);
  std::promise<std::string> reported;
  dist::MonitorOptions options;
  options.timeout = std::chrono::milliseconds(300);
  options.on_failure = [&](const std::string& report) { reported.set_value(report); };
  dist::Monitor monitor(world, options);
  monitor.at(dist::Phase::evaluation, 12);
  auto report = reported.get_future();
  REQUIRE(report.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  CHECK_THAT(report.get(), ContainsSubstring("rank 0 at step 12, evaluating: no progress"));
}
