#include "bench/report.h"

#include <sys/resource.h>

#include "amp/precision.h"
#include "bench/statistics.h"
#include "config/plan_model.h"

namespace ampctl::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kKib = 1024.0;
constexpr double kGib = kKib * kKib * kKib;
// Backward passes multiply as often as forward ones for the inputs' gradients and again for the weights'.
constexpr double kForwardPassesAStep = 3.0;

Json to_json(const Summary& summary) {
  return {{"median", summary.median},
          {"min", summary.min},
          {"max", summary.max},
          {"iqr", summary.iqr},
          {"spread", summary.spread()}};
}

Json to_json(const PhaseTimes& phases) {
  return {{"forward", phases.forward},
          {"backward", phases.backward},
          {"communication", phases.communication},
          {"optimizer", phases.optimizer},
          {"other", phases.other}};
}

Json to_json(const Profile& profile) {
  Json kernels = Json::array();
  double total = 0.0;
  for (const auto& kernel : profile.kernels) total += kernel.seconds;
  for (const auto& kernel : profile.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"launches", kernel.launches},
                       {"seconds", kernel.seconds},
                       {"share", total > 0.0 ? kernel.seconds / total : 0.0}});
  }
  return {{"busy_seconds", profile.busy_seconds},
          {"idle_seconds", profile.idle_seconds},
          {"exposed_communication_seconds", profile.exposed_communication_seconds},
          {"kernels", kernels}};
}

Json workload(const Report& report, const config::RunPlan& plan) {
  return {{"model", plan.config.model.name},
          {"precision", amp::to_string(plan.precision)},
          {"scaler", plan.scaler_enabled},
          {"micro_batch", plan.micro_batch},
          {"accumulation", plan.accumulation},
          {"world_size", plan.world_size},
          {"global_batch", plan.global_batch},
          {"input", {plan.channels, plan.input_height, plan.input_width}},
          {"data", plan.config.data.train.format},
          {"resident", report.resident},
          {"cuda_graph", report.cuda_graph},
          {"eager_reason", report.eager_reason ? Json(*report.eager_reason) : Json(nullptr)}};
}

Json rates(const Report& report, const config::RunPlan& plan, double step_seconds) {
  const auto samples_a_device = static_cast<double>(plan.micro_batch * plan.accumulation);
  const double flops =
      static_cast<double>(config::plan_cost(plan).forward_flops) * kForwardPassesAStep * samples_a_device;
  Json out{{"flops_a_step", flops}, {"flops_per_second", flops / step_seconds}};
  out["bytes_a_step"] = nullptr;
  out["bytes_per_second"] = nullptr;
  if (report.traffic_bytes) {
    out["bytes_a_step"] = *report.traffic_bytes;
    out["bytes_per_second"] = static_cast<double>(*report.traffic_bytes) / step_seconds;
  }
  out["limits"] = nullptr;
  if (report.limits) {
    out["limits"] = {{"flops_per_second", report.limits->flops_per_second},
                     {"bytes_per_second", report.limits->bytes_per_second},
                     {"product", report.limits->product},
                     {"copy", report.limits->copy}};
  }
  return out;
}

}  // namespace

double host_peak_gib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * kKib / kGib;
}

Json to_json(const Report& report, const config::RunPlan& plan) {
  const Summary step = summarise(report.times.step_seconds);
  std::vector<double> throughput;
  throughput.reserve(report.times.step_seconds.size());
  for (const double seconds : report.times.step_seconds)
    throughput.push_back(static_cast<double>(plan.global_batch) / seconds);

  Json out;
  out["device"] = report.device;
  out["libraries"] = report.libraries;
  out["workload"] = workload(report, plan);
  out["warmup_steps"] = report.blocks.warmup_steps;
  out["steps_a_block"] = report.blocks.steps;
  out["block_step_seconds"] = report.times.step_seconds;
  out["step_seconds"] = to_json(step);
  out["samples_per_sec"] = to_json(summarise(throughput));
  out["data_wait_seconds"] = summarise(report.times.data_wait_seconds).median;
  out["first_step_seconds"] = report.first_step_seconds ? Json(*report.first_step_seconds) : Json(nullptr);
  out["memory"] = {{"peak_allocated_gib", report.memory.allocated_gib},
                   {"peak_reserved_gib", report.memory.reserved_gib},
                   {"peak_host_gib", report.memory.host_gib}};
  out["loss"] = report.loss;
  out["skipped_steps"] = report.skipped_steps;
  out["rates"] = rates(report, plan, step.median);
  out["phases"] = report.phases ? to_json(*report.phases) : Json(nullptr);
  out["profile"] = report.profile ? to_json(*report.profile) : Json(nullptr);
  return out;
}

}  // namespace ampctl::bench
