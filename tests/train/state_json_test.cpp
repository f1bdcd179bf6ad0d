#include "train/state_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/process.h"

namespace ampctl {
namespace {

using test::ContainsSubstring;

train::SavedState example() {
  train::SavedState state;
  state.progress.windows = 7;
  state.progress.steps_done = 6;
  state.progress.samples_consumed = 168;
  state.progress.skipped_steps = 1;
  state.progress.last_evaluated = 7;
  state.progress.best = train::Best{0.1 + 0.2, 97.5, 7};
  state.scaler = amp::GradScalerState{32768.0, 2.0, 0.5, 2000, 5};
  state.class_names = {"zero", "één"};
  state.config = "seed: 1\n";
  return state;
}

std::filesystem::path saved(const std::filesystem::path& checkpoints, const std::string& text) {
  return checkpoint::save(checkpoints, 7, {{checkpoint::kStateFile, {}, {}, text}});
}

TEST_CASE("state.json keeps every value exactly, the scaler under PyTorch's names") {
  const test::TempDir folder;
  const std::string text = train::to_json(example());
  const auto scaler = nlohmann::json::parse(text).at("scaler");
  // torch.amp.GradScaler.state_dict()
  CHECK(scaler == nlohmann::json{{"scale", 32768.0},
                                 {"growth_factor", 2.0},
                                 {"backoff_factor", 0.5},
                                 {"growth_interval", 2000},
                                 {"_growth_tracker", 5}});
  const auto state = train::read_state(saved(folder.path(), text));
  CHECK(train::to_json(state) == text);
  CHECK(state.progress.best->value == 0.1 + 0.2);
  CHECK(state.class_names == std::vector<std::string>{"zero", "één"});
}

TEST_CASE("A state.json without a field, or with a wrong type, is an error that names file and field") {
  const test::TempDir folder;
  auto content = nlohmann::json::parse(train::to_json(example()));
  SECTION("missing") { content.at("progress").erase("steps_done"); }
  SECTION("wrong type") { content.at("progress").at("steps_done") = "six"; }
  const auto path = saved(folder.path(), content.dump());
  try {
    train::read_state(path);
    FAIL("it was accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::environment);
    CHECK_THAT(error.what(), ContainsSubstring((path / "state.json").string()));
  }
}

}  // namespace
}  // namespace ampctl
