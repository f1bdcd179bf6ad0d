// The engines behind a World's groups: each in a source file of its own, since their headers are heavy.
#pragma once

#include <chrono>
#include <string>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace ampctl::dist {

/// What a group is built from.
struct GroupOptions {
  c10::intrusive_ptr<c10d::Store> store;  ///< this group's own part
  int64_t rank = 0;
  int64_t size = 1;
  std::chrono::milliseconds timeout{};
};

/// A group for host tensors, and with a CUDA device in `device` for that one's too (through the host).
/// `local_address` names the network to use ("" : Gloo's default, the host name's address).
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> make_gloo_group(const GroupOptions& options,
                                                                     c10::Device device,
                                                                     const std::string& local_address);

/// Connects at once. Throws environment when this build has no NCCL, or when NCCL does not start.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> make_nccl_group(const GroupOptions& options,
                                                                     c10::Device device);

}  // namespace ampctl::dist
