#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/error.h"

namespace ampctl::optim {
namespace {

int64_t positive(int64_t value, const config::LrPlan& plan, const char* what) {
  if (value >= 1) return value;
  throw usage_error("lr_schedule " + plan.name + " needs " + what + " of at least 1 step, got " +
                    std::to_string(value));
}

double decayed(const config::LrPlan& plan, int64_t times) {
  return plan.base_lr * std::pow(plan.gamma, static_cast<double>(times));
}

// How far the run is past warm-up, 0 to 1.
double progress(const config::LrPlan& plan, int64_t after_warmup) {
  const int64_t steps = plan.total_steps - plan.warmup_steps;
  if (steps <= 0) return 0.0;
  return static_cast<double>(std::min(after_warmup, steps)) / static_cast<double>(steps);
}

double main_schedule(const config::LrPlan& plan, int64_t steps_done) {
  const int64_t after_warmup = steps_done - plan.warmup_steps;
  const double span = plan.base_lr - plan.min_lr;
  if (plan.name == "constant") return plan.base_lr;
  if (plan.name == "step") return decayed(plan, steps_done / positive(plan.step_size, plan, "a step size"));
  if (plan.name == "multi_step") {
    return decayed(plan, std::count_if(plan.milestones.begin(), plan.milestones.end(),
                                       [&](int64_t milestone) { return milestone <= steps_done; }));
  }
  if (plan.name == "exponential") {
    return decayed(plan, after_warmup / positive(plan.steps_per_epoch, plan, "an epoch"));
  }
  if (plan.name == "polynomial") {
    return plan.min_lr + span * std::pow(1.0 - progress(plan, after_warmup), plan.power);
  }
  if (plan.name == "cosine") {
    return plan.min_lr + span * (1.0 + std::cos(std::numbers::pi * progress(plan, after_warmup))) / 2.0;
  }
  throw usage_error("unknown lr_schedule \"" + plan.name +
                    "\"; known: constant, step, multi_step, exponential, polynomial, cosine");
}

}  // namespace

double lr_at(const config::LrPlan& plan, int64_t steps_done) {
  if (steps_done < 0) {
    throw Error(ErrorKind::internal, "lr_at counts updates from 0, got " + std::to_string(steps_done));
  }
  if (steps_done >= plan.warmup_steps) {
    return main_schedule(plan, std::min(steps_done, std::max(plan.total_steps, plan.warmup_steps)));
  }
  const double share = static_cast<double>(steps_done) / static_cast<double>(plan.warmup_steps);
  return plan.base_lr * (plan.warmup_start_factor + (1.0 - plan.warmup_start_factor) * share);
}

std::vector<float> lr_table(const config::LrPlan& plan) {
  std::vector<float> table;
  table.reserve(static_cast<size_t>(plan.total_steps) + 1);
  for (int64_t step = 0; step <= plan.total_steps; ++step) {
    table.push_back(static_cast<float>(lr_at(plan, step)));
  }
  return table;
}

}  // namespace ampctl::optim
