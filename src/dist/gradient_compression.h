// Gradients travel in bfloat16; c10d has no built-in hook for it as it has for float16.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

namespace ampctl::dist {

/// A Reducer's hook: the bucket's mean over the ranks, rounded to bfloat16 before it is sent.
class BFloat16CompressHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;
};

}  // namespace ampctl::dist
