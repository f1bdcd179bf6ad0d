#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "rank_group.h"
#include "support/catch.h"
#include "support/skip.h"

TEST_CASE("two ranks on two GPUs sum, agree on found_inf and train as the single process does", "[gpu]") {
  if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() < 2) {
    return ampctl::test::skip("fewer than two GPUs");
  }
  ampctl::test::GroupSetup setup;
  setup.role = "gradients_on_gpus";
  setup.device = "cuda";
  ampctl::test::require_role(setup);
}
