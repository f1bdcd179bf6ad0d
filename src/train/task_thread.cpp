#include "train/task_thread.h"

#include <utility>

namespace ampctl::train {

std::future<at::Tensor> TaskThread::start(std::function<at::Tensor()> task) {
  std::packaged_task<at::Tensor()> packaged(std::move(task));
  std::future<at::Tensor> result = packaged.get_future();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    task_ = std::move(packaged);
  }
  given_.notify_one();
  return result;
}

void TaskThread::loop(const std::stop_token& stop) {
  while (true) {
    std::packaged_task<at::Tensor()> task;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!given_.wait(lock, stop, [this] { return task_.valid(); })) return;
      task = std::move(task_);
    }
    task();
  }
}

}  // namespace ampctl::train
