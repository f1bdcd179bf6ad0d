#include "dist/agreement.h"

#include <utility>
#include <vector>

#include <ATen/ops/full.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "dist/peers.h"

namespace ampctl::dist {

Agreement::Agreement(const World& world) : world_(world) {}
Agreement::~Agreement() = default;

Wish Agreement::exchange(Wish mine) {
  if (world_.size() == 1) return mine;
  const Wish verdict = settle();
  with_peer_errors(world_, "the agreement on going on", [&] {
    wish_ = at::full({1}, static_cast<int64_t>(mine), at::kLong);
    std::vector<at::Tensor> tensors{wish_};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    work_ = world_.control()->allreduce(tensors, options);
  });
  return verdict;
}

Wish Agreement::settle() {
  if (!work_.defined()) return Wish::go_on;
  const auto work = std::exchange(work_, {});
  return with_peer_errors(world_, "the agreement on going on", [&] {
    work->wait();
    return static_cast<Wish>(wish_.item<int64_t>());
  });
}

}  // namespace ampctl::dist
