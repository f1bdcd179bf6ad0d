#include "device_setup.h"

#include <cstdlib>

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include "amp/precision.h"
#include "base/error.h"
#include "cuda_device.h"

namespace ampctl::worker {

c10::Device choose_device(const std::string& wanted) {
  if (wanted == "cpu") return c10::kCPU;
  const bool available = at::hasCUDA();
  if (available) return {c10::kCUDA, 0};
  if (wanted == "auto") return c10::kCPU;
  throw environment_error(
      "device: expected a CUDA GPU, found none that LibTorch can use; `ampctl env` says why. Set `device: "
      "cpu` (slow) or "
      "`device: auto` to train without one");
}

std::string device_name(c10::Device device) {
  if (device.is_cpu()) {
    const int threads = at::get_num_threads();
    return "CPU, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  }
  return cuda_device_name(device);
}

void prepare_environment(const config::ExperimentConfig& config) {
  // cuBLAS repeats its results only with a fixed workspace; a value that the user chose stays.
  if (config.train.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
}

void set_up_device(const config::RunPlan& plan, c10::Device device, events::EventBus& bus) {
  if (const auto warning = amp::check_precision(plan.precision, amp::device_facts(device))) {
    bus.emit(events::Message{events::Message::Level::warning, *warning});
  }
  amp::apply({plan.allow_tf32, plan.config.train.cudnn_benchmark, plan.config.train.deterministic});
  if (plan.config.train.num_threads) at::set_num_threads(static_cast<int>(*plan.config.train.num_threads));
  at::manual_seed(static_cast<uint64_t>(plan.config.seed));
}

}  // namespace ampctl::worker
