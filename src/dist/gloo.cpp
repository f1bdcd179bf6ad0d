#include <cstdlib>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "dist/process_groups.h"

namespace ampctl::dist {

c10::intrusive_ptr<c10d::ProcessGroup> make_gloo_group(const GroupOptions& options, c10::Device device,
                                                       const std::string& local_address) {
  using Gloo = c10d::ProcessGroupGloo;
  auto gloo = Gloo::Options::create(options.timeout);
  if (local_address.empty() || std::getenv("GLOO_SOCKET_IFNAME") != nullptr) {
    gloo = Gloo::Options::create_default(options.timeout);
  } else {
    gloo->devices.push_back(Gloo::createDeviceForHostname(local_address));
  }
  const int rank = static_cast<int>(options.rank);
  const int size = static_cast<int>(options.size);
  const auto backend = c10::make_intrusive<Gloo>(options.store, rank, size, gloo);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(options.store, rank, size);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::GLOO, backend);
  if (device.is_cuda()) group->setBackend(c10::kCUDA, c10d::ProcessGroup::BackendType::GLOO, backend);
  return group;
}

}  // namespace ampctl::dist
