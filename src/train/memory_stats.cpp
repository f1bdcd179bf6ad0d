#include "train/memory_stats.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "base/format.h"

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
  std::string text = "out of memory with data.batch_size " + std::to_string(batch) + " (accumulation " +
                     std::to_string(plan.accumulation) + "), peak " +
                     format_general(stats.max_allocated_gib, 4) + " GiB allocated, " +
                     format_general(stats.max_reserved_gib, 4) + " GiB reserved.";
  if (batch > 1) {
    const int64_t smaller = batch / 2;
    const int64_t accumulation = plan.accumulation * 2;
    text += " Try data.batch_size=" + std::to_string(smaller) +
            " train.gradient_accumulation_steps=" + std::to_string(accumulation) + " (global batch " +
            std::to_string(smaller * accumulation * plan.world_size) + (batch % 2 == 0 ? ", as now)" : ")");
  } else {
    text += " The batch is 1 already: use a smaller model or input";
  }
  if (plan.precision == config::Precision::float32 || plan.precision == config::Precision::tf32) {
    text += ", or amp.dtype=float16, which takes about half the memory";
  }
  return text + ".\n" + what;
}

}  // namespace ampctl::train
