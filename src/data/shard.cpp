#include "data/shard.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace ampctl::data {

Span share_of(const Span& whole, int64_t rank, int64_t world_size) {
  const int64_t each = whole.count / world_size;
  const int64_t more = whole.count % world_size;
  return {whole.start + rank * each + std::min(rank, more), each + (rank < more ? 1 : 0)};
}

ShardCursor::ShardCursor(const Shard& shard, int64_t batch_size, int64_t limit)
    : shard_(shard), batch_size_(batch_size), limit_(limit), window_start_(limit) {
  if (shard_.window == 0) shard_.window = batch_size * shard.world_size;
  if (shard_.window % (batch_size * shard.world_size) != 0) {
    throw Error(ErrorKind::internal,
                "a window of " + std::to_string(shard_.window) + " samples does not hold whole batches of " +
                    std::to_string(batch_size) + " for " + std::to_string(shard.world_size) + " ranks");
  }
}

void ShardCursor::seek(int64_t start) {
  const int64_t inside = start % shard_.window;
  if (shard_.world_size > 1 && inside != 0 && start != limit_) {
    throw Error(ErrorKind::internal, "ranks cannot begin inside a window, at position " +
                                         std::to_string(start) + " (windows of " +
                                         std::to_string(shard_.window) + ")");
  }
  window_start_ = start == limit_ ? limit_ : start - inside;
  taken_ = start == limit_ ? 0 : inside;
  skip_empty();
}

bool ShardCursor::at_end() const { return window_start_ >= limit_; }

Span ShardCursor::share() const {
  return share_of({window_start_, std::min(shard_.window, limit_ - window_start_)}, shard_.rank,
                  shard_.world_size);
}

Span ShardCursor::peek() const {
  const Span mine = share();
  return {mine.start + taken_, std::min(batch_size_ - taken_ % batch_size_, mine.count - taken_)};
}

Span ShardCursor::next() {
  const Span batch = peek();
  taken_ += batch.count;
  skip_empty();
  return batch;
}

void ShardCursor::skip_empty() {
  while (!at_end() && taken_ >= share().count) {
    window_start_ = std::min(window_start_ + shard_.window, limit_);
    taken_ = 0;
  }
}

}  // namespace ampctl::data
