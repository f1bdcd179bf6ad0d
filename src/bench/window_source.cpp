#include "bench/window_source.h"

#include <utility>

#include "base/error.h"
#include "data/shard.h"

namespace ampctl::bench {

WindowSource::WindowSource(const config::RunPlan& plan, data::Loader& loader, const dist::World& world)
    : plan_(plan),
      loader_(loader),
      share_(data::share_of({0, plan.global_batch}, world.rank(), world.size()).count) {}

std::vector<data::Batch> WindowSource::next() {
  const int64_t per_epoch = plan_.samples_per_epoch;
  if (position_ % per_epoch == 0) loader_.begin_epoch(position_ / per_epoch, 0);
  std::vector<data::Batch> window;
  for (int64_t taken = 0; taken < share_;) {
    auto batch = loader_.next();
    if (!batch) {
      if (loader_.stopped()) return {};
      throw Error(ErrorKind::internal, "the loader ended inside a window");
    }
    taken += batch->consumed;
    window.push_back(*std::move(batch));
  }
  position_ += plan_.global_batch;
  return window;
}

}  // namespace ampctl::bench
