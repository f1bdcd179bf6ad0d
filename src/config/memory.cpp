#include "config/memory.h"

#include "config/plan_model.h"

namespace ampctl::config {
namespace {

constexpr int64_t kFloat32Bytes = 4;
constexpr int64_t kHalfBytes = 2;
constexpr int64_t kIndexBytes = 8;

int64_t optimizer_tensors(const OptimizerConfig& optimizer) {
  if (optimizer.name == "sgd") return optimizer.momentum > 0 ? 1 : 0;
  return optimizer.amsgrad ? 3 : 2;
}

}  // namespace

MemoryEstimate estimate_memory(const RunPlan& plan) {
  const catalog::ModelCost cost = plan_cost(plan);
  const bool autocast = plan.precision == Precision::float16 || plan.precision == Precision::bfloat16;
  const int64_t parameter_bytes = cost.parameters * kFloat32Bytes;
  MemoryEstimate memory;
  memory.weights = parameter_bytes + cost.buffers * kFloat32Bytes;
  memory.gradients = parameter_bytes;
  memory.optimizer = parameter_bytes * optimizer_tensors(plan.config.optimizer);
  memory.casts = autocast ? cost.parameters * kHalfBytes : 0;
  const int64_t element_bytes = autocast ? kHalfBytes : kFloat32Bytes;
  memory.activations = plan.micro_batch * (cost.activations * element_bytes + cost.indices * kIndexBytes);
  return memory;
}

}  // namespace ampctl::config
