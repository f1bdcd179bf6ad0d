// What all ranks do next, agreed without slowing a step: verdicts come one call late, the same everywhere.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include "dist/world.h"

namespace c10d {
class Work;
}  // namespace c10d

namespace ampctl::dist {

/// Ordered: the largest wish of all ranks wins.
enum class Wish : int64_t { go_on = 0, stop = 1 };

/// An asynchronous all-reduce (the largest wish) through the control group. Every rank makes the same
/// calls. The world must outlive it and stay where it is.
class Agreement {
 public:
  explicit Agreement(const World& world);
  ~Agreement();
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  /// Posts `mine` and returns the joint verdict on the wishes of the previous call (go_on on the first). It
  /// waits only for ranks that are more than a call behind; when one is gone: Error(peer).
  /// In a world of one the answer is `mine`, at once.
  Wish exchange(Wish mine);

  /// Waits for the verdict on the wishes last posted, and takes it off; go_on when there are none.
  Wish settle();

 private:
  const World& world_;
  at::Tensor wish_;                      // 1 element, int64, on the host; in use while work_ is pending
  c10::intrusive_ptr<c10d::Work> work_;  // null: nothing posted
};

}  // namespace ampctl::dist
