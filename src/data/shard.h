// A rank's part of an epoch's order: a pure function of the positions, so that the samples of a window are
// the same for any number of ranks.
#pragma once

#include <cstdint>

namespace ampctl::data {

/// Consecutive positions of an epoch's order.
struct Span {
  int64_t start = 0;
  int64_t count = 0;
  bool operator==(const Span&) const = default;
};

/// Rank `rank`'s part of `whole`: contiguous, count / world_size positions, the first count % world_size
/// ranks one more.
[[nodiscard]] Span share_of(const Span& whole, int64_t rank, int64_t world_size);

/// Which part of every window a loader reads.
struct Shard {
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t window = 0;  ///< positions that all ranks together consume between two meetings: one optimizer
                       ///< step, or one round of an evaluation; 0: a batch of one rank alone
};

/// Walks through a rank's micro-batches of an epoch: the share of each window, cut into batches of
/// `batch_size`, the last one shorter. Windows that leave a rank nothing (at an epoch's end) are passed over.
class ShardCursor {
 public:
  /// `limit`: positions of the epoch. Throws an internal error when a window does not hold a batch a rank.
  ShardCursor(const Shard& shard, int64_t batch_size, int64_t limit);

  /// Goes to position `start` of the epoch: with several ranks a window's beginning, else an internal error.
  void seek(int64_t start);
  [[nodiscard]] bool at_end() const;
  /// The micro-batch that next() gives.
  [[nodiscard]] Span peek() const;
  Span next();

 private:
  [[nodiscard]] Span share() const;
  void skip_empty();

  Shard shard_;
  int64_t batch_size_;
  int64_t limit_;
  int64_t window_start_;
  int64_t taken_ = 0;  // of the share of the window that begins at window_start_
};

}  // namespace ampctl::data
