#include "data/decode_pool.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "data/assembly.h"

namespace ampctl::data {
namespace {

constexpr std::chrono::milliseconds kStopPoll{50};
// What a thread that is only decoding may take to notice the end; one stuck in a read takes longer.
constexpr std::chrono::milliseconds kGrace{500};

/// While it lives, this thread and those it starts get no signals: the program's own thread handles them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

/// Shared by the pool and its threads: a thread left behind keeps it alive.
struct DecodePool::State {
  State(DatasetPtr data, Transforms transform, const DecodeOptions& decode)
      : dataset(std::move(data)), transforms(std::move(transform)), options(decode) {}

  const DatasetPtr dataset;
  const Transforms transforms;
  const DecodeOptions options;
  mutable std::mutex mutex;
  std::condition_variable work_there;  // for threads: a place to fill, or the end
  std::condition_variable progress;    // for the consumer: a batch became ready, or a thread ended
  std::deque<std::shared_ptr<Assembly>> queue;
  std::vector<std::thread> threads;
  std::vector<uint8_t> ended;  // a thread each
  bool ending = false;

  std::shared_ptr<Assembly> with_work() const {
    const auto found =
        std::find_if(queue.begin(), queue.end(), [](const auto& assembly) { return assembly->has_work(); });
    return found == queue.end() ? nullptr : *found;
  }

  Image decode(int64_t epoch, int64_t index) const {
    const std::unique_ptr<ImageReader> reader = dataset->open(index);
    Random random(options.seed, Stream::augmentation, epoch, index);
    return apply(transforms.plan(reader->height(), reader->width(), random, dataset->sample_name(index)),
                 *reader);
  }

  void fill(const std::shared_ptr<Assembly>& assembly, std::unique_lock<std::mutex>& lock) const {
    const int64_t place = assembly->take_place();
    const int64_t index = assembly->index_at(place);
    lock.unlock();
    Image image;
    std::exception_ptr error;
    std::optional<SkippedSample> skipped;
    try {
      image = decode(assembly->epoch(), index);
    } catch (const DamagedSample& damage) {
      if (options.skip_corrupt) {
        skipped = SkippedSample{index, damage.what()};
      } else {
        error = std::current_exception();
      }
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (ending) return;
    if (error != nullptr) {
      assembly->add_error(place, std::move(error));
    } else if (skipped) {
      assembly->add_skipped(place, *std::move(skipped));
    } else {
      assembly->add(place, image, *dataset, lock);
    }
  }
};

void DecodePool::work(const std::shared_ptr<State>& state, size_t thread) {
  std::unique_lock lock(state->mutex);
  while (true) {
    std::shared_ptr<Assembly> assembly;
    state->work_there.wait(lock, [&] { return state->ending || (assembly = state->with_work()) != nullptr; });
    if (state->ending) break;
    state->fill(assembly, lock);
    if (assembly->ready()) state->progress.notify_all();
  }
  state->ended[thread] = 1;
  state->progress.notify_all();
}

DecodePool::DecodePool(DatasetPtr dataset, Transforms transforms, const DecodeOptions& options)
    : state_(std::make_shared<State>(std::move(dataset), std::move(transforms), options)) {
  const SignalsBlocked blocked;
  const auto count = static_cast<size_t>(options.num_threads);
  state_->ended.assign(count, 0);
  try {
    for (size_t i = 0; i < count; ++i) {
      state_->threads.emplace_back([state = state_, i] { work(state, i); });
    }
  } catch (const std::system_error& error) {
    const size_t started = state_->threads.size();
    {
      const std::scoped_lock lock(state_->mutex);
      state_->ending = true;
    }
    state_->work_there.notify_all();
    for (auto& thread : state_->threads) thread.join();
    throw environment_error("cannot start " + std::to_string(count) + " decoding threads, only " +
                            std::to_string(started) + " (" + error.what() + "); lower data.num_workers");
  }
}

DecodePool::~DecodePool() {
  clear();
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->work_there.notify_all();
  const auto all_ended = [this] {
    return std::all_of(state_->ended.begin(), state_->ended.end(), [](uint8_t ended) { return ended != 0; });
  };
  state_->progress.wait_for(lock, kGrace, all_ended);
  for (size_t i = 0; i < state_->threads.size(); ++i) {
    auto& thread = state_->threads[i];
    if (state_->ended[i] == 0) {
      thread.detach();
      continue;
    }
    lock.unlock();
    thread.join();
    lock.lock();
  }
}

void DecodePool::request(int64_t epoch, std::shared_ptr<const std::vector<int64_t>> order, int64_t start,
                         int64_t count) {
  auto assembly = std::make_shared<Assembly>(epoch, std::move(order), start, count, state_->options.pinned);
  const std::scoped_lock lock(state_->mutex);
  state_->queue.push_back(std::move(assembly));
  state_->work_there.notify_all();
}

int64_t DecodePool::pending() const {
  const std::scoped_lock lock(state_->mutex);
  return static_cast<int64_t>(state_->queue.size());
}

std::optional<HostBatch> DecodePool::take(bool wait, const std::atomic<bool>* stop) {
  std::unique_lock lock(state_->mutex);
  if (state_->queue.empty()) return std::nullopt;
  const std::shared_ptr<Assembly> assembly = state_->queue.front();
  while (wait && !assembly->ready() && (stop == nullptr || !stop->load())) {
    state_->progress.wait_for(lock, kStopPoll);
  }
  if (!assembly->ready()) return std::nullopt;
  state_->queue.pop_front();
  return assembly->finish(*state_->dataset);
}

void DecodePool::clear() {
  std::unique_lock lock(state_->mutex);
  // Emptied first: drop() gives up the lock, and no thread may then find a dropped batch to work on.
  const auto dropped = std::exchange(state_->queue, {});
  for (const auto& assembly : dropped) assembly->drop(lock);
}

}  // namespace ampctl::data
