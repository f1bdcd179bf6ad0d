// An open connection to the rank before this one, waited on: it breaks at once when that process ends.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "dist/world.h"

namespace ampctl::dist {

/// Each rank watches its predecessor (rank 0 the last), through a receive on the control group that nobody
/// ever answers. With NCCL this is what notices a killed peer: its own operations just never finish.
class Lifeline {
 public:
  /// `on_break` is called once at most, from a thread of this object, with the rank watched and the
  /// transport's words. The world must outlive it.
  Lifeline(const World& world, std::function<void(int64_t rank, const std::string& reason)> on_break);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

 private:
  at::Tensor received_;  // filled by nobody; the receive needs a place
  c10::intrusive_ptr<c10d::Work> receive_;
  std::thread thread_;
};

}  // namespace ampctl::dist
