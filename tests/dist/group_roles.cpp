#include <array>
#include <string>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "base/error.h"
#include "dist/agreement.h"
#include "dist/collectives.h"
#include "dist/consistency.h"
#include "roles.h"

namespace ampctl::test {
namespace {

using dist::Wish;
using dist::World;

void sums_and_broadcasts(const World& world) {
  at::Tensor sum = at::full({3}, world.rank() + 1.0, at::kFloat);
  dist::all_reduce_sum_(world, sum);
  require(sum.eq(1 + 2 + 3).all().item<bool>(), "the sum over ranks 0 to 2");
  at::Tensor largest = at::full({}, world.rank(), at::kLong);
  dist::all_reduce_max_(world, largest);
  require(largest.item<int64_t>() == 2, "the largest over ranks 0 to 2");

  // More than one message's worth of one dtype, and others between.
  at::Tensor floats = at::full({1000}, static_cast<double>(world.rank()), at::kFloat);
  at::Tensor longs = at::full({7}, world.rank(), at::kLong);
  at::Tensor halves = at::full({2, 3}, static_cast<double>(world.rank()), at::kHalf);
  dist::broadcast_(world, {floats, longs, halves});
  for (const auto& tensor : {floats, longs, halves}) {
    require(tensor.eq(0).all().item<bool>(), "every rank has rank 0's values");
  }
  dist::barrier(world);
}

void texts(const World& world) {
  // Lengths differ, one is empty, one holds a zero byte.
  const std::array<std::string, 3> all{"", std::string("a\0b", 3), std::string(100000, 'x')};
  const auto gathered = dist::gather_texts(world, all[static_cast<size_t>(world.rank())]);
  require(gathered == std::vector<std::string>(all.begin(), all.end()), "texts come whole and by rank");
}

void agreement(const World& world) {
  // Who wishes to stop at which call, by rank.
  constexpr std::array<std::array<bool, 5>, 3> kStops{{{false, true, false, false, false},
                                                       {false, false, false, true, false},
                                                       {false, false, false, true, false}}};
  dist::Agreement agreement(world);
  std::string verdicts;
  for (const bool stop : kStops[static_cast<size_t>(world.rank())]) {
    verdicts += agreement.exchange(stop ? Wish::stop : Wish::go_on) == Wish::stop ? 'S' : '-';
  }
  verdicts += agreement.settle() == Wish::stop ? 'S' : '-';
  require(verdicts == "--S-S-", "verdicts come one call late and are the largest wish, found " + verdicts);
  require(agreement.settle() == Wish::go_on, "there is nothing left to wait for");
}

void facts(const World& world) {
  const bool odd = world.rank() == 1;
  dist::require_equal(world, {{"lr", "0.1"}, {"seed", "1"}}, "the plan");
  const dist::Facts mine{{"lr", odd ? "0.2" : "0.1"}, {"seed", "1"}, {odd ? "extra" : "model", "mlp"}};
  const std::string message =
      message_of_error(ErrorKind::usage, [&] { dist::require_equal(world, mine, "the plan"); });
  require_contains(message, "the plan");
  require_contains(message, "lr: 0.1 on ranks 0, 2; 0.2 on rank 1");
  require_contains(message, "model: mlp on ranks 0, 2; (absent) on rank 1");
  require_contains(message, "extra: (absent) on ranks 0, 2; mlp on rank 1");
  require(message.find("seed") == std::string::npos, "what is equal is not listed");
}

std::string drift_message(const World& world, double scale, const dist::NamedTensors& tensors) {
  return message_of_error(ErrorKind::internal, [&] { dist::require_no_drift(world, 40, scale, 3, tensors); });
}

void drift(const World& world) {
  const bool odd = world.rank() == 2;
  const auto values = [] { return at::arange(5000000, at::kFloat); };  // more than one chunk
  dist::NamedTensors tensors{
      {"a", values()},
      {"b", at::arange(24, at::kHalf).view({1, 4, 2, 3}).to(at::MemoryFormat::ChannelsLast)},
      {"c", at::arange(6, at::kLong)},
      {"d", at::empty({0}, at::kFloat)}};
  dist::require_no_drift(world, 40, 65536, 3, tensors);

  if (odd) tensors[1].second.select(1, 2).add_(0.125);
  const std::string message = drift_message(world, 65536, tensors);
  require_contains(message, "step 40");
  require_contains(message, "b on rank 2");
  require(message.find("a on") == std::string::npos, "equal tensors are not listed");

  // The same values in other places, beyond the first chunk.
  tensors[1] = {"b", at::ones({2}, at::kHalf)};
  const at::Tensor end = tensors[0].second.narrow(0, 4999990, 2);
  if (odd) end.copy_(end.flip(0).clone());
  require_contains(drift_message(world, 65536, tensors), "a on rank 2");

  tensors[0].second = values();
  require_contains(drift_message(world, odd ? 32768 : 65536, tensors),
                   "loss scale: 65536 on ranks 0-1; 32768 on rank 2");
}

void group(const World& world) {
  sums_and_broadcasts(world);
  texts(world);
  agreement(world);
  facts(world);
  drift(world);
  // An operation still under way, on all ranks, does not keep them from leaving.
  dist::Agreement(world).exchange(Wish::go_on);
}

}  // namespace

std::map<std::string, Role> group_roles() { return {{"group", group}}; }

}  // namespace ampctl::test
