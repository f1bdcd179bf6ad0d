#include "data/shard.h"

#include <vector>

#include "base/error.h"
#include "support/catch.h"

using namespace ampctl;
using data::Shard;
using data::ShardCursor;
using data::Span;

namespace {

std::vector<Span> spans(const Shard& shard, int64_t batch_size, int64_t limit, int64_t start = 0) {
  ShardCursor cursor(shard, batch_size, limit);
  cursor.seek(start);
  std::vector<Span> all;
  while (!cursor.at_end()) all.push_back(cursor.next());
  return all;
}

/// How often each position is read by all ranks together.
std::vector<int> visits(int64_t world_size, int64_t window, int64_t batch_size, int64_t limit) {
  std::vector<int> count(static_cast<size_t>(limit));
  for (int64_t rank = 0; rank < world_size; ++rank) {
    for (const Span& span : spans({rank, world_size, window}, batch_size, limit)) {
      for (int64_t i = 0; i < span.count; ++i) ++count.at(static_cast<size_t>(span.start + i));
    }
  }
  return count;
}

}  // namespace

TEST_CASE("Shares are contiguous, disjoint and as equal as can be, the first ranks one more") {
  CHECK(data::share_of({100, 7}, 0, 3) == Span{100, 3});
  CHECK(data::share_of({100, 7}, 1, 3) == Span{103, 2});
  CHECK(data::share_of({100, 7}, 2, 3) == Span{105, 2});
  CHECK(data::share_of({100, 1}, 0, 2) == Span{100, 1});
  CHECK(data::share_of({100, 1}, 1, 2).count == 0);
}

TEST_CASE("One rank reads batches cut at multiples of the batch size, from any position on") {
  CHECK(spans({}, 4, 10) == std::vector<Span>{{0, 4}, {4, 4}, {8, 2}});
  CHECK(spans({}, 4, 10, 6) == std::vector<Span>{{6, 2}, {8, 2}});
  CHECK(spans({0, 1, 8}, 4, 10) == std::vector<Span>{{0, 4}, {4, 4}, {8, 2}});
  CHECK(spans({}, 4, 8, 8).empty());
}

TEST_CASE("Ranks read their part of every window, accumulated batches one after another") {
  CHECK(spans({0, 2, 8}, 2, 16) == std::vector<Span>{{0, 2}, {2, 2}, {8, 2}, {10, 2}});
  CHECK(spans({1, 2, 8}, 2, 16) == std::vector<Span>{{4, 2}, {6, 2}, {12, 2}, {14, 2}});
}

TEST_CASE("The last window is shared out evenly, and a rank without a share passes it over") {
  CHECK(spans({0, 2, 8}, 2, 13) == std::vector<Span>{{0, 2}, {2, 2}, {8, 2}, {10, 1}});
  CHECK(spans({1, 2, 8}, 2, 13) == std::vector<Span>{{4, 2}, {6, 2}, {11, 2}});
  CHECK(spans({1, 2, 4}, 2, 5) == std::vector<Span>{{2, 2}});
}

TEST_CASE("All ranks together read every position once, whatever the sizes") {
  for (const int64_t world_size : {1, 2, 3, 5}) {
    for (const int64_t limit : {1, 29, 30, 31, 60, 77}) {
      CAPTURE(world_size, limit);
      for (const int count : visits(world_size, world_size * 2 * 3, 3, limit)) REQUIRE(count == 1);
    }
  }
}

TEST_CASE("Ranks that would begin inside a window, and windows without whole batches, are refused") {
  ShardCursor cursor({0, 2, 8}, 2, 16);
  CHECK_THROWS_AS(cursor.seek(4), Error);
  CHECK_NOTHROW(cursor.seek(8));
  CHECK_THROWS_AS(ShardCursor({0, 2, 6}, 2, 16), Error);
}
