#include "rank_group.h"
#include "support/catch.h"

using ampctl::test::require_role;

TEST_CASE(
    "gradients of two ranks equal the single process's on the joined batch, in every way of splitting it") {
  require_role({"gradients", 2});
}

TEST_CASE("gradients of three ranks equal the single process's on the joined batch") {
  require_role({"gradients", 3});
}

TEST_CASE("two ranks start equal, refuse differing models with every difference, and share an overflow") {
  require_role({"models", 2});
}
