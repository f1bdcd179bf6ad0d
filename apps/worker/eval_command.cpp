#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "commands.h"
#include "components.h"
#include "device_setup.h"
#include "events/sinks.h"
#include "train/checkpoint_io.h"
#include "train/evaluator.h"

namespace ampctl::worker {
namespace {

namespace fs = std::filesystem;

fs::path find_weights(const config::ExperimentConfig& config, const std::string& wanted,
                      events::EventBus& bus) {
  if (fs::path(wanted).extension() == ".safetensors") return wanted;
  const fs::path checkpoints = fs::path(config.output) / "checkpoints";
  const auto folder = checkpoint::find(checkpoints, wanted, [&bus](const std::string& text) {
    bus.emit(events::Message{events::Message::Level::warning, text});
  });
  if (!folder) {
    throw environment_error(checkpoints.string() +
                            ": expected a checkpoint to evaluate, found none; train first, or "
                            "name one with --checkpoint");
  }
  return *folder / checkpoint::kModelFile;
}

void print(const train::EvalResult& result, const fs::path& weights, bool json) {
  if (json) {
    const nlohmann::json out{{"checkpoint", weights.parent_path().string()},
                             {"samples", result.samples},
                             {"eval/loss", result.loss},
                             {"eval/top1", result.top1},
                             {"eval/top5", result.top5},
                             {"seconds", result.seconds},
                             {"corrupt_samples", result.corrupt}};
    fmt::print("{}\n", out.dump());
    return;
  }
  fmt::print("{}: loss {:.4f}  top-1 {:.2f}%  top-5 {:.2f}%  ({} samples, {:.1f} s)\n", weights.string(),
             result.loss, result.top1, result.top5, result.samples, result.seconds);
  if (result.corrupt > 0) fmt::print("{} damaged samples were left out\n", result.corrupt);
}

}  // namespace

int eval_command(const config::ExperimentConfig& config, const EvalRequest& request, StopSignals& signals) {
  events::EventBus bus;
  events::ConsoleOptions console;
  console.fd = STDERR_FILENO;
  console.mode = events::parse_progress_mode(config.log.progress);
  bus.add("console", events::make_console(console));

  prepare_environment(config);
  const fs::path weights = find_weights(config, request.checkpoint, bus);
  const c10::Device device = choose_device(config.device);
  const data::TrainEval datasets = data::open_datasets(config.data, config.seed);
  if (!datasets.eval) {
    throw usage_error("data.eval: expected a source to evaluate on, found none; add data.eval or data.split");
  }
  const config::RunPlan plan = config::resolve(config, datasets.train->facts(), datasets.eval->facts(),
                                               {1, device.is_cuda() ? "cuda" : "cpu"});
  set_up_device(plan, device, bus);
  const nn::LayerPtr model = build_model(plan, device);
  train::load_tensors(weights, train::named_weights(*model));
  const auto loader = build_eval_loader(plan, datasets.eval, device, signals.requested());
  signals.started();
  const auto result = train::evaluate(*model, *loader, plan.eval_samples, step_options(plan),
                                      [&bus](int64_t done, int64_t total) {
                                        bus.emit(events::Progress{"evaluating", done, total});
                                      });
  if (!result) return 128 + signals.signal_number();
  for (auto& warning : loader->take_warnings()) {
    bus.emit(events::Message{events::Message::Level::warning, std::move(warning)});
  }
  print(*result, weights, request.json);
  return kExitDone;
}

}  // namespace ampctl::worker
