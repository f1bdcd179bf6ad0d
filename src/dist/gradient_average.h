// Gradients are averaged by the collective itself.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

namespace ampctl::dist {

/// A Reducer's hook for NCCL: the bucket's mean over the ranks, in place. Without a hook the Reducer divides
/// every gradient by the world size, a kernel each, also those that lie in its bucket already. The mean is
/// that of DistributedDataParallel, but for the rounding of a division by a world size that is no power of 2.
class AverageHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;
};

}  // namespace ampctl::dist
