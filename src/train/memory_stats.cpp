#include "train/memory_stats.h"

#include <spdlog/fmt/fmt.h>

#include <c10/core/CachingDeviceAllocator.h>

namespace ampctl::train {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr auto kAllPools = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

}  // namespace

MemoryStats memory_stats(c10::Device device) {
  if (device.is_cpu()) return {};
  const auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return {static_cast<double>(stats.allocated_bytes[kAllPools].peak) / kGib,
          static_cast<double>(stats.reserved_bytes[kAllPools].peak) / kGib};
}

std::string out_of_memory_advice(const config::RunPlan& plan, const MemoryStats& stats,
                                 const std::string& what) {
  const int64_t batch = plan.micro_batch;
  std::string text = fmt::format(
      "out of memory with data.batch_size {} (accumulation {}), peak {:.2f} GiB allocated, "
      "{:.2f} GiB reserved.",
      batch, plan.accumulation, stats.max_allocated_gib, stats.max_reserved_gib);
  if (batch > 1) {
    const int64_t smaller = batch / 2;
    text += fmt::format(" Try data.batch_size={} train.gradient_accumulation_steps={} (global batch {}{})",
                        smaller, plan.accumulation * 2, smaller * plan.accumulation * 2 * plan.world_size,
                        batch % 2 == 0 ? ", as now" : "");
  } else {
    text += " The batch is 1 already: use a smaller model or input";
  }
  if (plan.precision == config::Precision::float32 || plan.precision == config::Precision::tf32) {
    text += ", or amp.dtype=float16, which takes about half the memory";
  }
  return text + ".\n" + what;
}

}  // namespace ampctl::train
