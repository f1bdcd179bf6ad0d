// One rank of the training steps that ranks_test.cpp runs as real processes over Gloo: prints what it ends
// with. Arguments: scenario, rank, world size, port, cpu or cuda.
#include <cstdio>
#include <exception>
#include <string>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/error.h"
#include "ranks_scenario.h"

int main(int argc, char** argv) {
  using namespace ampctl;
  if (argc != 6) return kExitUsage;
  try {
    const test::Scenario scenario = test::scenario(argv[1]);
    dist::WorldOptions options;
    options.rank = std::stoll(argv[2]);
    options.size = std::stoll(argv[3]);
    options.local_rank = options.rank;
    options.local_size = options.size;
    options.master_port = static_cast<uint16_t>(std::stoul(argv[4]));
    if (std::string(argv[5]) == "cuda") {
      options.device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(options.rank));
      options.backend = "nccl";
      c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(options.device);
    }
    options.timeout = std::chrono::seconds(60);
    options.join_timeout = options.timeout;
    // Ranks share the cores of a test machine.
    at::set_num_threads(1);
    // Runs are compared bit for bit.
    at::globalContext().setDeterministicCuDNN(true);
    // Graphs are not captured on the default stream, and no test minds.
    const c10::StreamGuard guard(
        options.device.is_cuda()
            ? c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool(options.device)
            : c10::Stream(c10::Stream::DEFAULT, options.device));
    dist::World world = dist::World::join(options);
    std::printf("%s", test::to_text(test::train(scenario, world)).c_str());
    world.leave();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return kExitInternal;
  }
  return kExitDone;
}
