#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <utility>

#include "base/error.h"
#include "data/decode_pool.h"
#include "data/device_stage.h"
#include "data/resident_batches.h"

namespace ampctl::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kDeviceAhead = 2;    // batches on the device, the one handed out included
constexpr int64_t kNamedCorrupt = 5;  // damaged files that are named in a warning

/// Damaged files seen: how many different ones, and what to say about them.
class CorruptLog {
 public:
  explicit CorruptLog(int64_t limit) : limit_(limit) {}

  void add(const std::vector<SkippedSample>& skipped) {
    for (const auto& sample : skipped) {
      if (!seen_.insert(sample.index).second) continue;
      if (count() > limit_) {
        throw environment_error(
            std::to_string(count()) + " different samples are damaged, more than the " +
            std::to_string(limit_) +
            " that data.max_corrupt allows to skip; check the data set. The last one: " + sample.message);
      }
      if (count() <= kNamedCorrupt) warnings_.push_back("skipped a damaged sample: " + sample.message);
      if (count() == kNamedCorrupt) warnings_.emplace_back("further damaged samples are counted, not named");
    }
  }

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(seen_.size()); }
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

 private:
  int64_t limit_;
  std::set<int64_t> seen_;
  std::vector<std::string> warnings_;
};

/// A staged batch, with what is only said when its turn comes.
struct Ahead {
  StagedBatch staged;
  std::vector<SkippedSample> skipped;
  std::exception_ptr error;
};

DecodeOptions decode_options(const LoaderOptions& options) {
  return {std::max<int64_t>(options.num_workers, 1), options.seed,
          options.pin_memory && !options.device.is_cpu(), options.skip_corrupt};
}

void check(const DatasetPtr& dataset, const LoaderOptions& options) {
  if (dataset == nullptr || dataset->size() < 1) throw environment_error("the data set holds no samples");
  if (options.batch_size < 1 || options.num_workers < 0 || options.prefetch_factor < 1) {
    throw usage_error(
        "data: expected batch_size and prefetch_factor of at least 1 and num_workers of at least 0, found " +
        std::to_string(options.batch_size) + ", " + std::to_string(options.prefetch_factor) + " and " +
        std::to_string(options.num_workers));
  }
}

}  // namespace

struct Loader::Impl {
  Impl(DatasetPtr source, Transforms transforms, const LoaderOptions& given,
       const std::atomic<bool>* stop_flag)
      : dataset(std::move(source)),
        options(given),
        stop(stop_flag),
        stage(given.device, transforms.affine(dataset->facts().channels), given.dtype, given.channels_last),
        repeats(dataset->made_up() && given.shuffle && !given.device.is_cpu() &&
                !transforms.changes_images()),
        pool(dataset, std::move(transforms), decode_options(given)),
        corrupt(given.max_corrupt) {
    const int64_t size = dataset->size();
    limit = given.drop_last ? size - size % given.batch_size : size;
    next_start = limit;
  }

  bool should_stop() {
    if (stop != nullptr && stop->load()) is_stopped = true;
    return is_stopped;
  }

  /// Length of the batch at `start`: up to the next multiple of batch_size.
  [[nodiscard]] int64_t length_at(int64_t start) const {
    return std::min(options.batch_size - start % options.batch_size, limit - start);
  }

  /// Keeps the threads busy; without workers a batch is only asked for when it is needed.
  void request_ahead() {
    const int64_t depth = std::max<int64_t>(options.num_workers * options.prefetch_factor, 1);
    const bool on_demand = options.num_workers == 0;
    if (on_demand && !ahead.empty()) return;
    while (next_start < limit && pool.pending() < depth) {
      const int64_t count = length_at(next_start);
      pool.request(epoch, order, next_start, count);
      next_start += count;
    }
  }

  /// Moves what is decoded to the device; waits only when there is nothing to hand out.
  void stage_ahead() {
    const size_t wanted = options.device.is_cpu() || options.num_workers == 0 ? 1 : kDeviceAhead;
    while (ahead.size() < wanted) {
      request_ahead();
      auto host = pool.take(ahead.empty(), stop);
      if (!host) return;
      Ahead entry{{}, std::move(host->skipped), std::move(host->error)};
      if (entry.error == nullptr) entry.staged = stage.stage(*host);
      ahead.push_back(std::move(entry));
    }
  }

  std::optional<Batch> next_decoded() {
    stage_ahead();
    if (ahead.empty()) return std::nullopt;
    Ahead entry = std::move(ahead.front());
    ahead.pop_front();
    if (entry.error != nullptr) std::rethrow_exception(entry.error);
    corrupt.add(entry.skipped);
    Batch batch = stage.release(std::move(entry.staged));
    batch.corrupt = static_cast<int64_t>(entry.skipped.size());
    if (options.num_workers > 0) request_ahead();
    return batch;
  }

  std::optional<Batch> next_resident() {
    if (next_start >= limit) return std::nullopt;
    if (!resident) resident.emplace(*dataset, options.batch_size, stage);
    const int64_t count = length_at(next_start);
    Batch batch = resident->at(epoch, next_start, count);
    next_start += count;
    return batch;
  }

  DatasetPtr dataset;
  LoaderOptions options;
  const std::atomic<bool>* stop;
  DeviceStage stage;
  bool repeats;
  DecodePool pool;
  CorruptLog corrupt;
  int64_t limit = 0;
  int64_t epoch = 0;
  int64_t next_start = 0;  // of the first batch not asked for yet
  std::shared_ptr<const std::vector<int64_t>> order;
  std::deque<Ahead> ahead;
  std::optional<ResidentBatches> resident;
  bool is_stopped = false;
};

Loader::Loader(DatasetPtr dataset, std::vector<config::TransformConfig> transforms,
               const LoaderOptions& options, const std::atomic<bool>* stop) {
  check(dataset, options);
  impl_ = std::make_unique<Impl>(std::move(dataset), Transforms(std::move(transforms)), options, stop);
}

Loader::~Loader() = default;

void Loader::begin_epoch(int64_t epoch, int64_t start) {
  if (start < 0 || start > impl_->limit) {
    throw Error(ErrorKind::internal, "an epoch of " + std::to_string(impl_->limit) +
                                         " samples cannot begin at position " + std::to_string(start));
  }
  impl_->pool.clear();
  impl_->ahead.clear();
  impl_->epoch = epoch;
  impl_->next_start = start;
  if (impl_->repeats) return;
  impl_->order = std::make_shared<const std::vector<int64_t>>(
      epoch_order(impl_->dataset->size(), impl_->options.seed, epoch, impl_->options.shuffle));
  if (impl_->options.num_workers > 0) impl_->request_ahead();
}

std::optional<Batch> Loader::next() {
  if (impl_->should_stop()) return std::nullopt;
  const auto begin = Clock::now();
  std::optional<Batch> batch = impl_->repeats ? impl_->next_resident() : impl_->next_decoded();
  if (!batch) {
    impl_->should_stop();
    return std::nullopt;
  }
  batch->wait_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return batch;
}

bool Loader::stopped() const { return impl_->is_stopped; }

int64_t Loader::corrupt_count() const { return impl_->corrupt.count(); }

std::vector<std::string> Loader::take_warnings() { return impl_->corrupt.take_warnings(); }

}  // namespace ampctl::data
