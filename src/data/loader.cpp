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

using Order = std::shared_ptr<const std::vector<int64_t>>;

/// The batches to ask for next.
struct Requests {
  int64_t epoch = 0;
  ShardCursor cursor;
  Order order;
};

/// A staged batch, with what is only said when its turn comes.
struct Ahead {
  int64_t consumed = 0;
  StagedBatch staged;
  std::vector<SkippedSample> skipped;
  std::exception_ptr error;
};

DecodeOptions decode_options(const LoaderOptions& options, bool repeats) {
  return {repeats ? 0 : std::max<int64_t>(options.num_workers, 1), options.seed,
          options.pin_memory && !options.device.is_cpu(), options.skip_corrupt};
}

int64_t window_of(const LoaderOptions& options) {
  return options.shard.window > 0 ? options.shard.window : options.batch_size * options.shard.world_size;
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
        pool(dataset, std::move(transforms), decode_options(given, repeats)),
        corrupt(given.max_corrupt),
        limit(dataset->size() - (given.drop_last ? dataset->size() % window_of(given) : 0)),
        cursor(given.shard, given.batch_size, limit),
        requests{0, cursor, nullptr} {}

  bool should_stop() {
    if (stop != nullptr && stop->load()) is_stopped = true;
    return is_stopped;
  }

  void request_from(int64_t to_epoch, int64_t start) {
    requests.epoch = to_epoch;
    requests.cursor.seek(start);
    requests.order = std::make_shared<const std::vector<int64_t>>(
        epoch_order(dataset->size(), options.seed, to_epoch, options.shuffle));
  }

  /// Keeps the threads busy, in training also with the next epoch, so that it need not begin cold.
  void request_ahead() {
    const int64_t depth = std::max<int64_t>(options.num_workers * options.prefetch_factor, 1);
    while (pool.pending() < depth) {
      if (requests.cursor.at_end()) {
        if (!options.shuffle || options.num_workers == 0) return;
        request_from(requests.epoch + 1, 0);
        if (requests.cursor.at_end()) return;
      }
      const Span batch = requests.cursor.next();
      pool.request(requests.epoch, requests.order, batch.start, batch.count);
    }
  }

  /// Moves what is decoded to the device; waits only when there is nothing to hand out. Returns the seconds
  /// waited.
  double stage_ahead() {
    const size_t wanted = options.device.is_cpu() || options.num_workers == 0 ? 1 : kDeviceAhead;
    double waited = 0.0;
    while (ahead.size() < wanted) {
      request_ahead();
      const auto begin = Clock::now();
      auto host = pool.take(ahead.empty(), stop);
      waited += std::chrono::duration<double>(Clock::now() - begin).count();
      if (!host) break;
      Ahead entry{host->consumed, {}, std::move(host->skipped), std::move(host->error)};
      if (entry.error == nullptr) entry.staged = stage.stage(*host);
      ahead.push_back(std::move(entry));
    }
    return waited;
  }

  std::optional<Batch> next_decoded() {
    const double waited = stage_ahead();
    if (ahead.empty()) return std::nullopt;
    Ahead entry = std::move(ahead.front());
    ahead.pop_front();
    cursor.next();
    if (entry.error != nullptr) std::rethrow_exception(entry.error);
    corrupt.add(entry.skipped);
    Batch batch = stage.release(std::move(entry.staged));
    batch.corrupt = static_cast<int64_t>(entry.skipped.size());
    batch.wait_seconds = waited;
    if (options.num_workers > 0) request_ahead();
    return batch;
  }

  Batch next_resident() {
    if (!resident) resident.emplace(*dataset, options.batch_size, stage);
    const Span batch = cursor.next();
    return resident->at(epoch, batch.start, batch.count);
  }

  void begin_epoch(int64_t next_epoch, int64_t start) {
    // At the end of an epoch what is queued, if anything, is the next one from its beginning.
    const bool goes_on = requests.order != nullptr && options.shuffle && options.num_workers > 0 &&
                         cursor.at_end() && start == 0 && next_epoch == epoch + 1;
    epoch = next_epoch;
    cursor.seek(start);
    if (repeats || goes_on) return;
    pool.clear();
    ahead.clear();
    request_from(epoch, start);
    if (options.num_workers > 0) request_ahead();
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
  ShardCursor cursor;  // at the next batch to hand out; at the epoch's end before the first begin_epoch()
  Requests requests;
  std::deque<Ahead> ahead;  // from `cursor` on, then the next epoch's
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
  impl_->begin_epoch(epoch, start);
}

std::optional<Batch> Loader::next() {
  if (impl_->should_stop() || impl_->cursor.at_end()) return std::nullopt;
  std::optional<Batch> batch = impl_->repeats ? impl_->next_resident() : impl_->next_decoded();
  if (!batch) impl_->should_stop();
  return batch;
}

bool Loader::stopped() const { return impl_->is_stopped; }

int64_t Loader::corrupt_count() const { return impl_->corrupt.count(); }

std::vector<std::string> Loader::take_warnings() { return impl_->corrupt.take_warnings(); }

}  // namespace ampctl::data
