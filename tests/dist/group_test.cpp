#include "rank_group.h"
#include "support/catch.h"

using ampctl::test::require_role;

TEST_CASE("three ranks sum, broadcast, gather, agree, and name what differs and what has drifted") {
  require_role({"group", 3});
}

TEST_CASE("ranks may leave at different times") { require_role({"leaves_at_different_times", 3}); }
