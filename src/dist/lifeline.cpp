#include "dist/lifeline.h"

#include <chrono>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace ampctl::dist {
namespace {

/// Apart from the tags of collectives, which c10d numbers in a range of their own.
constexpr int kTag = 1;
/// A receive that times out would close every connection of the group, so this one never does.
constexpr std::chrono::hours kForever{24 * 365 * 10};

}  // namespace

Lifeline::Lifeline(const World& world, std::function<void(int64_t, const std::string&)> on_break)
    : received_(at::empty({1}, at::kByte)) {
  const int64_t watched = (world.rank() + world.size() - 1) % world.size();
  std::vector<at::Tensor> tensors{received_};
  receive_ = world.control()->recv(tensors, static_cast<int>(watched), kTag);
  thread_ = std::thread([work = receive_, watched, on_break = std::move(on_break)] {
    try {
      work->wait(kForever);
    } catch (const std::exception& error) {
      on_break(watched, error.what());
    }
  });
}

Lifeline::~Lifeline() {
  receive_->abort();
  thread_.join();
}

}  // namespace ampctl::dist
