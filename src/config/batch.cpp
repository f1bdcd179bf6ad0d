#include "config/batch.h"

namespace ampctl::config {
namespace {

std::string processes(int64_t world_size) {
  return std::to_string(world_size) + (world_size == 1 ? " process" : " processes");
}

std::string not_whole(int64_t global, const std::string& factor, int64_t world_size,
                      const std::string& remedy) {
  return "data.global_batch_size: expected a multiple of " + factor + " x " + processes(world_size) +
         ", found " + std::to_string(global) + "; " + remedy;
}

}  // namespace

BatchPlan resolve_batch(const ExperimentConfig& config, int64_t world_size,
                        std::vector<std::string>& problems) {
  const auto& micro = config.data.batch_size;
  const auto& accumulation = config.train.gradient_accumulation_steps;
  const auto& global = config.data.global_batch_size;
  constexpr BatchPlan kNone{0, 0, 0};
  if (!micro && !global) {
    problems.emplace_back("data.batch_size: expected this or data.global_batch_size, found neither");
    return kNone;
  }
  if (!global) {
    const int64_t steps = accumulation.value_or(1);
    return {*micro, steps, *micro * steps * world_size};
  }
  if (!micro) {
    const int64_t steps = accumulation.value_or(1);
    if (*global % (steps * world_size) != 0) {
      problems.push_back(not_whole(*global, "gradient_accumulation_steps " + std::to_string(steps),
                                   world_size, "change one of them"));
      return kNone;
    }
    return {*global / (steps * world_size), steps, *global};
  }
  if (!accumulation) {
    if (*global % (*micro * world_size) != 0) {
      problems.push_back(
          not_whole(*global, "batch_size " + std::to_string(*micro), world_size, "change one of them"));
      return kNone;
    }
    return {*micro, *global / (*micro * world_size), *global};
  }
  const int64_t product = *micro * *accumulation * world_size;
  if (product != *global) {
    problems.push_back("data.global_batch_size: expected batch_size " + std::to_string(*micro) +
                       " x gradient_accumulation_steps " + std::to_string(*accumulation) + " x " +
                       processes(world_size) + " = " + std::to_string(product) + ", found " +
                       std::to_string(*global) + "; leave one of the three out");
    return kNone;
  }
  return {*micro, *accumulation, *global};
}

}  // namespace ampctl::config
