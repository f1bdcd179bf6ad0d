#include "dist/rank_list.h"

#include "support/catch.h"

using ampctl::dist::rank_list;

TEST_CASE("neighbouring ranks are listed as ranges") {
  CHECK(rank_list({3}) == "rank 3");
  CHECK(rank_list({0, 1}) == "ranks 0-1");
  CHECK(rank_list({0, 1, 2, 5, 8, 9}) == "ranks 0-2, 5, 8-9");
}
