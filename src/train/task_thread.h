// A thread that waits for one task after another, for work that would start a thread at every step.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <stop_token>
#include <thread>

#include <ATen/core/Tensor.h>

namespace ampctl::train {

class TaskThread {
 public:
  TaskThread() : thread_([this](const std::stop_token& stop) { loop(stop); }) {}

  /// One task at a time: the result of the one before must have been waited for. The future holds what the
  /// task returns or throws. Going out of scope waits for a running task.
  [[nodiscard]] std::future<at::Tensor> start(std::function<at::Tensor()> task);

 private:
  void loop(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any given_;
  std::packaged_task<at::Tensor()> task_;  // valid: waits to be run
  std::jthread thread_;                    // last: it must end before what it uses
};

}  // namespace ampctl::train
