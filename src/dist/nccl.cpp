#include <array>
#include <cstdlib>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/cuda/nccl.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "base/error.h"
#include "dist/process_groups.h"

namespace ampctl::dist {
namespace {

/// c10d's watchdog would end the process, or end operations so that the device goes on with half-summed
/// gradients, which could then be saved. Here a failed operation stays unfinished: the monitor and the
/// control group see what happened, name it, and end the process. Variables that are set already win.
///
/// NCCL lets graphs and other launches of its own mix freely by default, which slows down every kernel of a
/// graph that holds collectives (ResNet-50: 0.3 ms of 27); World::settle keeps them apart instead.
void set_defaults() {
  constexpr std::array<std::pair<const char*, const char*>, 6> kDefaults{{
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"},  // nothing is done behind our back
      {"TORCH_NCCL_ENABLE_MONITORING", "0"},     // no abort of the process when the watchdog is stuck
      {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"},   // the main thread meets the same error, and can report it
      {"TORCH_NCCL_PROPAGATE_ERROR", "0"},
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
      {"NCCL_GRAPH_MIXING_SUPPORT", "0"},
  }};
  constexpr int kKeepExisting = 0;
  for (const auto& [name, value] : kDefaults) ::setenv(name, value, kKeepExisting);
}

/// c10d's options hold NCCL's own struct, whose layout is its version's.
void check_version() {
  constexpr int kPatchBits = 16;  // of LibTorch's number: major, minor and patch, 16 bits each
  constexpr uint64_t kCompiled = (uint64_t{NCCL_MAJOR} << kPatchBits) | NCCL_MINOR;
  if (torch::cuda::nccl::version() >> kPatchBits == kCompiled) return;
  throw environment_error("this program was compiled with the header of NCCL " + std::to_string(NCCL_MAJOR) +
                          "." + std::to_string(NCCL_MINOR) +
                          ", LibTorch with that of another version; configure the "
                          "build with -DAMPCTL_NCCL_INCLUDE=<the folder of LibTorch's own nccl.h>");
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_nccl_group(const GroupOptions& options, c10::Device device) {
  using Nccl = c10d::ProcessGroupNCCL;
  check_version();
  set_defaults();
  const int rank = static_cast<int>(options.rank);
  const int size = static_cast<int>(options.size);
  auto nccl_options = Nccl::Options::create();
  // The watchdog only writes its own, longer report when this has passed; the monitor comes first.
  nccl_options->timeout = 2 * options.timeout;
  try {
    const auto backend = c10::make_intrusive<Nccl>(options.store, rank, size, nccl_options);
    auto group = c10::make_intrusive<c10d::ProcessGroup>(options.store, rank, size);
    // Before setBackend, which hands it on to the backend.
    group->setBoundDeviceId(device);
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
    group->setBackend(c10::kCUDA, c10d::ProcessGroup::BackendType::NCCL, backend);
    // Now, where a failure has a clear place, rather than inside the first step.
    backend->eagerConnectSingleDevice(device);
    return group;
  } catch (const c10::Error& error) {
    throw environment_error(
        "NCCL does not start on rank " + std::to_string(options.rank) + " (" + device.str() +
        "): " + error.what_without_backtrace() +
        "; every rank needs a GPU of its own; NCCL_DEBUG=INFO tells more, NCCL_SOCKET_IFNAME " +
        "chooses the network; distributed.backend: gloo goes without NCCL");
  }
}

}  // namespace ampctl::dist
