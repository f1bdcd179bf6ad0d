#include <nlohmann/json.hpp>

#include "catalog/datasets.h"
#include "commands.h"
#include "config/run_plan.h"
#include "launch/environment.h"
#include "launch/local_world.h"
#include "launch/probe.h"
#include "launch/visible_gpus.h"
#include "launch/worker_place.h"
#include "launch/worker_process.h"
#include "output.h"

namespace ampctl::cli {
namespace {

using Json = nlohmann::ordered_json;

// Only LibTorch knows whether a GPU can be used; everything but `auto` needs no asking.
std::string decided_device(const config::ExperimentConfig& config, const launch::Variables& variables) {
  if (config.device != "auto") return config.device;
  return launch::run_probe(launch::find_worker(variables)).gpus.empty() ? "cpu" : "cuda";
}

const char* name_of(config::Precision precision) {
  switch (precision) {
    case config::Precision::tf32:
      return "tf32";
    case config::Precision::float16:
      return "float16";
    case config::Precision::bfloat16:
      return "bfloat16";
    case config::Precision::float32:
      break;
  }
  return "float32";
}

Json to_json(const config::LrPlan& lr) {
  return {{"name", lr.name},
          {"base_lr", lr.base_lr},
          {"warmup_steps", lr.warmup_steps},
          {"warmup_start_factor", lr.warmup_start_factor},
          {"total_steps", lr.total_steps},
          {"step_size", lr.step_size},
          {"milestones", lr.milestones},
          {"gamma", lr.gamma},
          {"power", lr.power},
          {"min_lr", lr.min_lr}};
}

Json to_json(const config::RunPlan& plan) {
  return {{"model", plan.config.model.name},
          {"device", plan.device},
          {"precision", name_of(plan.precision)},
          {"scaler_enabled", plan.scaler_enabled},
          {"allow_tf32", plan.allow_tf32},
          {"world_size", plan.world_size},
          {"micro_batch", plan.micro_batch},
          {"accumulation", plan.accumulation},
          {"global_batch", plan.global_batch},
          {"eval_batch", plan.eval_batch},
          {"train_samples", plan.train_samples},
          {"eval_samples", plan.eval_samples},
          {"samples_per_epoch", plan.samples_per_epoch},
          {"steps_per_epoch", plan.steps_per_epoch},
          {"total_windows", plan.total_windows},
          {"num_classes", plan.num_classes},
          {"channels", plan.channels},
          {"input_height", plan.input_height},
          {"input_width", plan.input_width},
          {"lr", to_json(plan.lr)},
          {"eval_every_windows", plan.eval_every_windows},
          {"checkpoint_every_windows", plan.checkpoint_every_windows},
          {"output", plan.config.output}};
}

// As `train` would decide here, but for GPUs that are missing: plans are made on machines without them.
int64_t decided_world(const config::ExperimentConfig& config, const launch::Variables& variables) {
  const launch::WorkerPlace place = launch::worker_place(variables);
  if (!place.launcher.empty() || config.distributed.world_size) {
    return launch::world_size(config.distributed.world_size, place);
  }
  return launch::local_world({}, world_request(config), launch::visible_gpus(variables)).world_size;
}

}  // namespace

int run_plan(const PlanOptions& options) {
  const config::ExperimentConfig config = load(options.config);
  const launch::Variables variables = launch::process_variables();
  config::WorldFacts world;
  world.device = decided_device(config, variables);
  world.hypothetical = options.world_size.has_value();
  world.world_size = options.world_size ? *options.world_size : decided_world(config, variables);
  const auto data = catalog::count(config::sources(config.data));
  const config::RunPlan plan = config::resolve(config, data.train, data.eval, world);
  print(options.json ? to_json(plan).dump(2) + "\n" : config::to_text(plan));
  return 0;
}

}  // namespace ampctl::cli
