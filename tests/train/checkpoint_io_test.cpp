#include "train/checkpoint_io.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "config/load.h"
#include "fixture.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/process.h"
#include "train/state_json.h"

namespace ampctl {
namespace {

using test::ContainsSubstring;
using test::Setup;
using test::SetupOptions;

constexpr int kSteps = 5;

config::RunPlan plan_with(const std::string& more = "") {
  config::RunPlan plan;
  plan.config = config::load_text(
      "model: {name: mlp}\ndata: {batch_size: 4, train: {format: synthetic}}\ntrain: {epochs: 1}\n" + more,
      "test");
  return plan;
}

train::LiveState live_state(Setup& setup) {
  return {*setup.model, *setup.optimizer, *setup.scaler, *setup.step, c10::kCPU};
}

const dist::World kAlone = dist::World::alone(c10::kCPU);

std::filesystem::path save(const std::filesystem::path& checkpoints, const train::LiveState& live,
                           const train::Progress& progress, const config::RunPlan& plan,
                           const std::vector<std::string>& class_names) {
  return train::save_checkpoint(checkpoints, live, progress, plan, class_names, kAlone, [](const auto&) {});
}

/// Steps on batches from the default generator, so that its state matters as well; each third overflows.
void train(Setup& setup, const std::string& model) {
  for (int step = 0; step < kSteps; ++step) {
    setup.step->run({step % 3 == 1 ? test::make_overflowing_batch(model, 2) : test::make_batch(model, 2)});
  }
}

template <class Action>
std::string message_of(const Action& action, ErrorKind kind) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  return "nothing was thrown";
}

TEST_CASE("A checkpoint loaded into a new set-up continues bit for bit") {
  for (const std::string model : {"mlp", "resnet18"}) {
    for (const std::string precision : {"float16", "bfloat16"}) {
      DYNAMIC_SECTION(model << " in " << precision) {
        const test::TempDir folder;
        SetupOptions options;
        options.model = model;
        options.precision = precision;
        options.optimizer = model == "mlp" ? "adamw" : "sgd";
        options.lr_table = {0.05F, 0.04F, 0.03F, 0.02F, 0.01F, 0.005F, 0.004F, 0.003F, 0.002F, 0.001F, 0.0F};
        options.init_scale = 16;
        options.growth_interval = 2;
        Setup first(options);
        train(first, model);
        const auto steps_done = first.step->counters().steps_done.item<int64_t>();
        REQUIRE(steps_done > 0);
        REQUIRE(steps_done <= kSteps - 2);
        train::Progress progress;
        progress.windows = kSteps;
        progress.samples_consumed = 4 * kSteps;
        progress.best = train::Best{91.25, 91.25, 3};
        const auto path = save(folder.path(), live_state(first), progress, plan_with(), {"a", "b"});
        train(first, model);

        options.seed = 99;
        Setup second(options);
        const auto restored = train::load_checkpoint(path, live_state(second), plan_with(), kAlone);
        CHECK(restored.windows == kSteps);
        CHECK(restored.steps_done == steps_done);
        CHECK(restored.samples_consumed == 4 * kSteps);
        CHECK(restored.best->value == 91.25);
        CHECK(second.step->counters().windows.item<int64_t>() == kSteps);
        train(second, model);

        const auto expected = first.state();
        const auto found = second.state();
        REQUIRE(expected.size() == found.size());
        for (size_t i = 0; i < expected.size(); ++i) CHECK(expected[i].equal(found[i]));
        CHECK(first.step->counters().steps_done.equal(second.step->counters().steps_done));
        if (precision == "float16") {
          CHECK(first.scaler->get_scale() == second.scaler->get_scale());
          CHECK(first.scaler->get_growth_tracker() == second.scaler->get_growth_tracker());
        }
      }
    }
  }
}

TEST_CASE("Tensors that do not fit are all named, and nothing is changed by them") {
  const test::TempDir folder;
  const auto path = folder.path() / "weights.safetensors";
  const at::Tensor value = at::ones({2, 3});
  const auto ref = [&value](const std::string& name, const std::vector<int64_t>& shape) {
    return checkpoint::TensorRef{name, "F32", shape, value.const_data_ptr(), value.nbytes()};
  };
  checkpoint::write_safetensors(path, {ref("good", {2, 3}), ref("turned", {3, 2}), ref("extra", {6})});
  const at::Tensor good = at::zeros({2, 3});
  const at::Tensor turned = at::zeros({2, 3});
  const std::string message = message_of(
      [&] {
        train::load_tensors(path, {{"good", good}, {"turned", turned}, {"absent", at::zeros({1})}});
      },
      ErrorKind::environment);
  CHECK_THAT(message, ContainsSubstring(path.string()));
  CHECK_THAT(message, ContainsSubstring("turned: expected F32[2, 3], found F32[3, 2]"));
  CHECK_THAT(message, ContainsSubstring("absent: missing"));
  CHECK_THAT(message, ContainsSubstring("extra: unexpected"));
  CHECK(message.find("good") == std::string::npos);
  CHECK(good.equal(at::zeros({2, 3})));
}

TEST_CASE("A checkpoint of another configuration is refused key by key before anything is loaded") {
  const test::TempDir folder;
  Setup setup{SetupOptions{}};
  const auto path = save(folder.path(), live_state(setup), {}, plan_with(), {});
  const auto before = setup.state();
  const std::string message = message_of(
      [&] {
        train::load_checkpoint(path, live_state(setup),
                               plan_with("seed: 5\noptimizer: {lr: 0.5}\nlog: {every_steps: 7}\n"), kAlone);
      },
      ErrorKind::usage);
  CHECK_THAT(message, ContainsSubstring("\n  seed: 42 in the checkpoint, 5 now"));
  CHECK_THAT(message, ContainsSubstring("\n  optimizer.lr: 0.1 in the checkpoint, 0.5 now"));
  CHECK(message.find("log.every_steps") == std::string::npos);
  CHECK_NOTHROW(
      train::load_checkpoint(path, live_state(setup), plan_with("log: {every_steps: 7}\n"), kAlone));
}

TEST_CASE("A scaler's state and its absence do not take each other's place") {
  const test::TempDir folder;
  SetupOptions options;
  options.precision = "float16";
  Setup with(options);
  const auto path = save(folder.path(), live_state(with), {}, plan_with(), {});
  CHECK(train::read_state(path).scaler.has_value());
  Setup without{SetupOptions{}};
  const auto other = save(folder.path() / "other", live_state(without), {}, plan_with(), {});
  CHECK_FALSE(train::read_state(other).scaler.has_value());
  CHECK_THROWS(train::load_checkpoint(other, live_state(with), plan_with(), kAlone));
}

}  // namespace
}  // namespace ampctl
