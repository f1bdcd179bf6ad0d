#include "dist/collectives.h"

#include <algorithm>
#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "dist/peers.h"

namespace ampctl::dist {
namespace {

/// As DistributedDataParallel's own for parameters and buffers.
constexpr size_t kBroadcastBytes = size_t{250} << 20;

std::string describe(const at::Tensor& tensor) {
  return std::to_string(tensor.numel()) + " " + c10::getDtypeNames(tensor.scalar_type()).first + " values";
}

// On the current stream rather than on one of the group's own: nothing runs beside these anyway, and a CUDA
// graph is spared a fork and a join. NCCL then hands out no handle to wait for.
template <class Options>
Options in_line() {
  Options options;
  options.asyncOp = false;
  return options;
}

void wait(const c10::intrusive_ptr<c10d::Work>& work) {
  if (work) work->wait();
}

void all_reduce_(const World& world, at::Tensor& tensor, c10d::ReduceOp::RedOpType operation) {
  if (world.size() == 1) return;
  world.settle();
  with_peer_errors(world, "the all-reduce of " + describe(tensor), [&] {
    std::vector<at::Tensor> tensors{tensor};
    auto options = in_line<c10d::AllreduceOptions>();
    options.reduceOp = operation;
    wait(world.group()->allreduce(tensors, options));
  });
}

/// Equal shapes on all ranks; on the host; by rank.
std::vector<at::Tensor> all_gather(const World& world, const at::Tensor& tensor) {
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int64_t rank = 0; rank < world.size(); ++rank) outputs[0].push_back(at::empty_like(tensor));
  std::vector<at::Tensor> inputs{tensor};
  world.control()->allgather(outputs, inputs)->wait();
  return outputs[0];
}

}  // namespace

void all_reduce_sum_(const World& world, at::Tensor& tensor) {
  all_reduce_(world, tensor, c10d::ReduceOp::SUM);
}

void all_reduce_max_(const World& world, at::Tensor& tensor) {
  all_reduce_(world, tensor, c10d::ReduceOp::MAX);
}

void broadcast_(const World& world, const std::vector<at::Tensor>& tensors) {
  if (world.size() == 1 || tensors.empty()) return;
  world.settle();
  const at::NoGradGuard no_grad;
  with_peer_errors(world, "the broadcast of " + std::to_string(tensors.size()) + " tensors", [&] {
    // Coalescing copies what it sends: of no use to a tensor that travels alone.
    std::vector<at::Tensor> alone = tensors;
    if (alone.size() == 1 && alone.front().is_contiguous()) {
      wait(world.group()->broadcast(alone, in_line<c10d::BroadcastOptions>()));
    } else {
      c10d::broadcast_coalesced(world.group(), tensors, kBroadcastBytes, 0);
    }
  });
}

std::vector<at::Tensor> gather_host(const World& world, const at::Tensor& tensor) {
  if (world.size() == 1) return {tensor};
  return with_peer_errors(world, "the gather of " + describe(tensor),
                          [&] { return all_gather(world, tensor); });
}

std::vector<std::string> gather_texts(const World& world, const std::string& text) {
  if (world.size() == 1) return {text};
  const auto own_size = static_cast<int64_t>(text.size());
  const auto sizes = gather_host(world, at::full({1}, own_size, at::kLong));
  int64_t longest = 1;
  for (const auto& size : sizes) longest = std::max(longest, size.item<int64_t>());
  at::Tensor bytes = at::zeros({longest}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  std::vector<std::string> texts;
  for (const auto& gathered : gather_host(world, bytes)) {
    const auto size = static_cast<size_t>(sizes[texts.size()].item<int64_t>());
    texts.emplace_back(static_cast<const char*>(gathered.data_ptr()), size);
  }
  return texts;
}

void barrier(const World& world) {
  if (world.size() == 1) return;
  with_peer_errors(world, "the barrier", [&] { world.control()->barrier()->wait(); });
}

}  // namespace ampctl::dist
