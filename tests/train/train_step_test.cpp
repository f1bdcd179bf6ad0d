#include "train/train_step.h"

#include <cmath>

#include <ATen/ops/cat.h>

#include "fixture.h"
#include "support/catch.h"
#include "support/deterministic.h"
#include "support/devices.h"

namespace ampctl {
namespace {

using test::make_batch;
using test::make_overflowing_batch;
using test::Setup;
using test::SetupOptions;

bool bit_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].equal(b[i])) return false;
  }
  return true;
}

data::Batch part(const data::Batch& batch, int64_t start, int64_t size) {
  data::Batch out;
  out.images = batch.images.narrow(0, start, size);
  out.targets = batch.targets.narrow(0, start, size);
  out.size = size;
  out.consumed = size;
  return out;
}

TEST_CASE("A window of unequal micro-batches takes the step of the joined batch") {
  Setup whole(SetupOptions{});
  Setup parts(SetupOptions{});
  at::manual_seed(7);
  for (int step = 0; step < 5; ++step) {
    const data::Batch joined = make_batch("mlp", 11);
    whole.step->run({joined});
    parts.step->run({part(joined, 0, 4), part(joined, 4, 4), part(joined, 8, 3)});
  }
  const auto expected = whole.parameters();
  const auto found = parts.parameters();
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK((expected[i] - found[i]).norm().item<double>() < 1e-6 * expected[i].norm().item<double>());
  }
}

void check_working_weights(c10::Device device) {
  const test::Deterministic deterministic;
  for (const std::string precision : {"float16", "bfloat16"}) {
    for (const std::string optimizer : {"sgd", "adamw"}) {
      SetupOptions options;
      // The CPU's 16-bit convolutions are slow.
      options.model = device.is_cuda() ? "resnet18" : "mlp";
      options.precision = precision;
      options.optimizer = optimizer;
      options.lr = 1e-3;
      options.clip_grad_norm = 1.0;
      options.device = device;
      Setup casting(options);
      options.working_weights = true;
      Setup working(options);
      at::manual_seed(7);
      for (int step = 0; step < 6; ++step) {
        const auto on_device = [&](data::Batch batch) {
          batch.images = batch.images.to(device);
          batch.targets = batch.targets.to(device);
          return batch;
        };
        std::vector<data::Batch> window;
        window.push_back(on_device(make_batch(options.model, 8)));
        window.push_back(
            on_device(step == 2 ? make_overflowing_batch(options.model, 5) : make_batch(options.model, 5)));
        casting.step->run(window);
        working.step->run(window);
      }
      INFO(precision << " with " << optimizer);
      CHECK(bit_equal(working.state(), casting.state()));
      for (const auto& [parameter, copy] : working.working_weights->copies())
        CHECK(copy.equal(parameter.to(copy.scalar_type())));
    }
  }
}
AMPCTL_DEVICE_TEST_CASE(check_working_weights, "Steps that read working weights equal steps that cast them")

TEST_CASE("A step with non-finite gradients changes nothing, in every precision") {
  for (const std::string precision : {"float32", "float16", "bfloat16"}) {
    for (const std::string optimizer : {"sgd", "adamw"}) {
      DYNAMIC_SECTION(precision << " with " << optimizer
                                << ": parameters, optimizer state and running statistics") {
        SetupOptions options;
        options.model = "resnet18";
        options.precision = precision;
        options.optimizer = optimizer;
        options.lr = 1e-3;
        options.init_scale = 16;
        Setup setup(options);
        setup.step->run({make_batch("resnet18", 4)});
        const auto before = setup.state();
        const auto steps = setup.step->counters().steps_done.item<int64_t>();
        // The infinite sample comes second: buffers were already written to by a good forward pass.
        setup.step->run({make_batch("resnet18", 4), make_overflowing_batch("resnet18", 4)});
        CHECK(bit_equal(before, setup.state()));
        CHECK(setup.step->counters().steps_done.item<int64_t>() == steps);
        const auto rows = setup.rows();
        REQUIRE(rows.size() == 2);
        CHECK_FALSE(rows[0].found_inf);
        CHECK(rows[1].found_inf);
        setup.step->run({make_batch("resnet18", 4)});
        CHECK_FALSE(bit_equal(before, setup.state()));
      }
    }
  }
}

TEST_CASE("A run with a skipped step goes on as if the step had never been tried") {
  SetupOptions options;
  options.optimizer = "adamw";
  options.lr_table = {0.1F, 0.05F, 0.025F, 0.0125F, 0.00625F};
  Setup with_skip(options);
  Setup without(options);
  at::manual_seed(3);
  const auto first = make_batch("mlp", 6);
  const auto second = make_batch("mlp", 6);
  with_skip.step->run({first});
  with_skip.step->run({make_overflowing_batch("mlp", 6)});
  with_skip.step->run({second});
  without.step->run({first});
  without.step->run({second});
  CHECK(bit_equal(with_skip.state(), without.state()));
  const auto rows = with_skip.rows();
  CHECK(rows[1].lr == Approx(0.05));
  CHECK(rows[2].lr == Approx(0.05));
}

TEST_CASE("The scale halves on an overflow and doubles after growth_interval clean steps, once a window") {
  SetupOptions options;
  options.precision = "float16";
  options.init_scale = 1024;
  options.growth_interval = 2;
  Setup setup(options);
  const auto good = [] { return make_batch("mlp", 4); };
  setup.step->run({good(), good()});
  CHECK(setup.scaler->get_scale() == 1024);
  CHECK(setup.scaler->get_growth_tracker() == 1);
  setup.step->run({good(), good()});
  CHECK(setup.scaler->get_scale() == 2048);
  setup.step->run({good(), make_overflowing_batch("mlp", 4)});
  CHECK(setup.scaler->get_scale() == 1024);
  CHECK(setup.scaler->get_growth_tracker() == 0);
}

TEST_CASE("The recorder names the parameters whose gradients overflowed and the loss of good steps") {
  Setup setup(SetupOptions{});
  setup.step->run({make_overflowing_batch("mlp", 4)});
  setup.step->run({make_batch("mlp", 4), make_batch("mlp", 2)});
  const auto rows = setup.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].step == 0);
  CHECK_FALSE(rows[0].nonfinite.empty());
  CHECK(rows[1].step == 1);
  CHECK(rows[1].nonfinite.empty());
  CHECK(rows[1].samples == 6);
  // Untrained logits are near zero, so that the mean loss is near log(classes).
  CHECK(rows[1].loss_sum / 6 == Approx(std::log(test::kClasses)).margin(0.5));
}

}  // namespace
}  // namespace ampctl
