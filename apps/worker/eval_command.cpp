#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/error.h"
#include "base/format.h"
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
                      const std::function<void(const std::string&)>& warn) {
  if (fs::path(wanted).extension() == ".safetensors") return wanted;
  const fs::path checkpoints = fs::path(config.output) / "checkpoints";
  const auto folder = checkpoint::find(checkpoints, wanted, warn);
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
    std::cout << out.dump() << "\n";
    return;
  }
  std::cout << weights.string() << ": loss " << format_significant(result.loss, 4) << "  top-1 "
            << format_percent(result.top1) << "  top-5 " << format_percent(result.top5) << "  ("
            << result.samples << " samples, " << format_duration(result.seconds) << ")\n";
  if (result.corrupt > 0) std::cout << result.corrupt << " damaged samples were left out\n";
}

}  // namespace

int eval_command(const config::ExperimentConfig& config, const EvalRequest& request, StopSignals& signals) {
  // In a pointer: the progress line must be gone before the result is printed.
  auto bus = std::make_unique<events::EventBus>();
  events::ConsoleOptions console;
  console.fd = STDERR_FILENO;
  console.mode = events::parse_progress_mode(config.log.progress);
  console.level = events::parse_level(config.log.level);
  bus->add("console", events::make_console(console));
  const auto warn = [&bus](const std::string& text) {
    bus->emit(events::Message{events::Message::Level::warning, text});
  };

  prepare_environment(config);
  const fs::path weights = find_weights(config, request.checkpoint, warn);
  const c10::Device device = choose_device(config.device, {});
  const data::TrainEval datasets = data::open_datasets(config.data, config.seed);
  if (!datasets.eval) {
    throw usage_error("data.eval: expected a source to evaluate on, found none; add data.eval or data.split");
  }
  // One process evaluates, also what several trained: the configuration's arithmetic stays theirs.
  const config::WorldFacts facts{config.distributed.world_size.value_or(1), device.is_cuda() ? "cuda" : "cpu",
                                 true};
  const config::RunPlan plan =
      config::resolve(config, datasets.train->facts(), datasets.eval->facts(), facts);
  set_up_device(plan, device, *bus);
  const nn::LayerPtr model = build_model(plan, device);
  train::load_tensors(weights, train::named_weights(*model));
  const dist::World world = dist::World::alone(device);
  const auto loader = build_eval_loader(plan, datasets.eval, world, &signals.requested());
  signals.started();
  train::EvalRun run;
  run.total_samples = plan.eval_samples;
  run.batch_size = plan.eval_batch;
  run.precision = step_options(plan);
  run.progress = [&bus](int64_t done, int64_t total) {
    bus->emit(events::Progress{"evaluating", done, total});
  };
  const auto result = train::evaluate(*model, *loader, run, world);
  if (!result) return 128 + signals.signal_number();
  for (const auto& warning : loader->take_warnings()) warn(warning);
  bus.reset();
  print(*result, weights, request.json);
  return kExitDone;
}

}  // namespace ampctl::worker
