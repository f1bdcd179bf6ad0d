// Ranks as threads of one process, for code that only needs a sum over ranks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

namespace ampctl::test {

class EmulatedRanks {
 public:
  explicit EmulatedRanks(size_t size) : tensors_(size) {}

  /// What rank `rank` hands to the code under test: meets the others, then holds the sum in rank order.
  std::function<void(at::Tensor&)> sum_of(size_t rank) {
    return [this, rank](at::Tensor& tensor) { sum(rank, tensor); };
  }

  /// Runs `body(rank)` in a thread each and throws what one of them threw.
  void run(const std::function<void(size_t)>& body) {
    std::vector<std::exception_ptr> failures(tensors_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < tensors_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          failures[rank] = std::current_exception();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  /// Sums so far.
  [[nodiscard]] size_t sums() const { return round_; }

 private:
  void sum(size_t rank, at::Tensor& tensor) {
    constexpr std::chrono::seconds kPatience{20};
    const at::NoGradGuard no_grad;
    std::unique_lock<std::mutex> lock(mutex_);
    tensors_[rank] = tensor.clone();
    if (++arrived_ == tensors_.size()) {
      result_ = tensors_[0].clone();
      for (size_t other = 1; other < tensors_.size(); ++other) result_.add_(tensors_[other]);
      arrived_ = 0;
      ++round_;
      met_.notify_all();
    } else {
      const size_t round = round_;
      if (!met_.wait_for(lock, kPatience, [&] { return round_ != round; })) {
        throw std::runtime_error("a rank did not come to the sum");
      }
    }
    tensor.copy_(result_);
  }

  std::mutex mutex_;
  std::condition_variable met_;
  std::vector<at::Tensor> tensors_;
  at::Tensor result_;  // the next sum cannot begin before every rank has left this one's critical section
  size_t arrived_ = 0;
  size_t round_ = 0;
};

}  // namespace ampctl::test
