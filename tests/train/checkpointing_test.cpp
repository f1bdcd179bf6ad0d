// train.activation_checkpointing in whole training steps.
#include <string>
#include <vector>

#include <ATen/Context.h>

#include "fixture.h"
#include "support/catch.h"
#include "train/train_step.h"

namespace ampctl {
namespace {

using test::make_batch;
using test::make_overflowing_batch;
using test::Setup;
using test::SetupOptions;

/// What a few steps leave behind: two windows of micro-batches and one whose second overflows between them.
std::vector<at::Tensor> trained(SetupOptions options, const std::vector<std::string>& patterns) {
  options.activation_checkpointing = patterns;
  Setup setup(options);
  at::manual_seed(11);
  const auto good = [&](int64_t size) { return make_batch(options.model, size); };
  setup.step->run({good(4), good(3)});
  setup.step->run({good(2), make_overflowing_batch(options.model, 2)});
  setup.step->run({good(4)});
  const auto rows = setup.rows();
  REQUIRE(rows.size() == 3);
  CHECK_FALSE(rows[0].found_inf);
  CHECK(rows[1].found_inf);
  CHECK_FALSE(rows[2].found_inf);
  return setup.state();
}

void check_same(const SetupOptions& options, const std::vector<std::string>& patterns) {
  INFO(options.model << " " << options.precision);
  const auto wanted = trained(options, {});
  const auto found = trained(options, patterns);
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO(i);
    CHECK(found[i].equal(wanted[i]));
  }
}

TEST_CASE("Training with checkpointed activations takes the same steps, skips and statistics bit by bit") {
  for (const std::string precision : {"float32", "float16", "bfloat16"}) {
    SetupOptions options;
    options.precision = precision;
    options.init_scale = 16;
    options.dropout = 0.25;
    options.optimizer = "adamw";
    check_same(options, {"fc1", "dropout"});
    options.model = "resnet18";
    options.lr = 1e-3;
    check_same(options, {"layer?.?"});
  }
}

}  // namespace
}  // namespace ampctl
