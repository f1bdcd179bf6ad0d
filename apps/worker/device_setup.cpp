#include "device_setup.h"

#include <cstdlib>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "amp/precision.h"
#include "base/error.h"
#include "cuda_device.h"

namespace ampctl::worker {

namespace {

// Slurm and MPI launchers may show each task its own GPU only; it then is number 0 whatever the local rank.
bool sees_own_gpu_only(const launch::WorkerPlace& place, int64_t gpus) {
  return gpus == 1 && place.local_rank > 0 && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr &&
         (place.launcher == "Slurm" || place.launcher == "Open MPI" || place.launcher == "PMI");
}

}  // namespace

c10::Device choose_device(const std::string& wanted, const launch::WorkerPlace& place) {
  if (wanted == "cpu") return c10::kCPU;
  if (!at::hasCUDA()) {
    if (wanted == "auto") return c10::kCPU;
    throw environment_error(
        "device: expected a CUDA GPU, found none that LibTorch can use; `ampctl env` says why. Set `device: "
        "cpu` (slow) or "
        "`device: auto` to train without one");
  }
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  const auto gpus = static_cast<int64_t>(static_cast<unsigned char>(cuda.deviceCount()));
  const int64_t index = sees_own_gpu_only(place, gpus) ? 0 : place.local_rank;
  if (index >= gpus) {
    throw environment_error("local rank " + std::to_string(place.local_rank) +
                            ": expected a GPU of its own, " + "found " + std::to_string(gpus) +
                            " on this host; start as many processes as there are GPUs "
                            "(distributed.world_size, --nproc-per-node), or check CUDA_VISIBLE_DEVICES");
  }
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  cuda.setDevice(device);
  return device;
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

void use_own_stream(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.exchangeStream(guard.getStreamFromGlobalPool(device));
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
