// One rank of a test: dist_rank ROLE RANK SIZE PORT TIMEOUT_MS DEVICE
// Prints its error and ends with the exit code of its kind, as the worker does.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include <c10/util/Logging.h>

#include "base/error.h"
#include "roles.h"

namespace {

using ampctl::dist::World;
using ampctl::dist::WorldOptions;

enum Argument { kRole = 1, kRank, kSize, kPort, kTimeout, kDevice, kCount };

WorldOptions world_options(char** argv) {
  WorldOptions options;
  options.rank = std::stoll(argv[kRank]);
  options.size = std::stoll(argv[kSize]);
  options.local_rank = options.rank;
  options.local_size = options.size;
  options.master_port = static_cast<uint16_t>(std::stoi(argv[kPort]));
  options.timeout = std::chrono::milliseconds(std::stoll(argv[kTimeout]));
  options.join_timeout = options.timeout;
  options.run_id = "test";
  if (std::string(argv[kDevice]) == "cuda") {
    options.device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(options.local_rank));
    options.backend = "nccl";
  }
  return options;
}

int run(char** argv) {
  World world = World::join(world_options(argv));
  ampctl::test::roles().at(argv[kRole])(world);
  world.leave();
  return ampctl::kExitDone;
}

/// After a failure nothing may wait for a dead peer, not even static destructors.
[[noreturn]] void end_at_once(int code) {
  std::cout.flush();
  std::cerr.flush();
  std::_Exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != kCount) {
    std::cerr << "usage: dist_rank ROLE RANK SIZE PORT TIMEOUT_MS DEVICE\n";
    return ampctl::kExitUsage;
  }
  c10::initLogging();  // reads TORCH_CPP_LOG_LEVEL
  try {
    return run(argv);
  } catch (const ampctl::Error& error) {
    std::cerr << "error: " << error.what() << std::endl;
    end_at_once(ampctl::exit_code(error.kind()));
  } catch (const std::exception& error) {
    std::cerr << "unexpected: " << error.what() << std::endl;
    end_at_once(ampctl::kExitInternal);
  }
}
