#include "train/state_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace ampctl::train {
namespace {

using nlohmann::json;

json progress_to_json(const Progress& progress) {
  json out{{"windows", progress.windows},
           {"steps_done", progress.steps_done},
           {"samples_consumed", progress.samples_consumed},
           {"skipped_steps", progress.skipped_steps},
           {"consecutive_skips", progress.consecutive_skips},
           {"last_evaluated", progress.last_evaluated},
           {"corrupt_samples", progress.corrupt_samples},
           {"best", nullptr}};
  if (progress.best) {
    out["best"] = {
        {"value", progress.best->value}, {"top1", progress.best->top1}, {"step", progress.best->step}};
  }
  return out;
}

Progress progress_from_json(const json& in) {
  Progress progress;
  progress.windows = in.at("windows").get<int64_t>();
  progress.steps_done = in.at("steps_done").get<int64_t>();
  progress.samples_consumed = in.at("samples_consumed").get<int64_t>();
  progress.skipped_steps = in.at("skipped_steps").get<int64_t>();
  progress.consecutive_skips = in.at("consecutive_skips").get<int64_t>();
  progress.last_evaluated = in.at("last_evaluated").get<int64_t>();
  progress.corrupt_samples = in.at("corrupt_samples").get<int64_t>();
  const json& best = in.at("best");
  if (!best.is_null()) {
    progress.best =
        Best{best.at("value").get<double>(), best.at("top1").get<double>(), best.at("step").get<int64_t>()};
  }
  return progress;
}

// PyTorch's names, so that the scaler's state reads the same everywhere.
json scaler_to_json(const amp::GradScalerState& scaler) {
  return {{"scale", scaler.scale},
          {"growth_factor", scaler.growth_factor},
          {"backoff_factor", scaler.backoff_factor},
          {"growth_interval", scaler.growth_interval},
          {"_growth_tracker", scaler.growth_tracker}};
}

amp::GradScalerState scaler_from_json(const json& in) {
  amp::GradScalerState scaler;
  scaler.scale = in.at("scale").get<double>();
  scaler.growth_factor = in.at("growth_factor").get<double>();
  scaler.backoff_factor = in.at("backoff_factor").get<double>();
  scaler.growth_interval = in.at("growth_interval").get<int64_t>();
  scaler.growth_tracker = in.at("_growth_tracker").get<int64_t>();
  return scaler;
}

}  // namespace

std::string to_json(const SavedState& state) {
  json out{{"progress", progress_to_json(state.progress)},
           {"scaler", nullptr},
           {"class_names", state.class_names},
           {"config", state.config}};
  if (state.scaler) out["scaler"] = scaler_to_json(*state.scaler);
  return out.dump(2) + "\n";
}

SavedState read_state(const std::filesystem::path& folder) {
  const std::string text = checkpoint::read_text(folder, checkpoint::kStateFile);
  try {
    const json in = json::parse(text);
    SavedState state;
    state.progress = progress_from_json(in.at("progress"));
    if (!in.at("scaler").is_null()) state.scaler = scaler_from_json(in.at("scaler"));
    state.class_names = in.at("class_names").get<std::vector<std::string>>();
    state.config = in.at("config").get<std::string>();
    return state;
  } catch (const json::exception& error) {
    throw environment_error((folder / checkpoint::kStateFile).string() +
                            ": expected the fields of docs/checkpoint-format.md, found: " + error.what() +
                            "; use another checkpoint (--resume PATH)");
  }
}

}  // namespace ampctl::train
