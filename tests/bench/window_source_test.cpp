#include "bench/window_source.h"

#include <atomic>

#include "data/dataset.h"
#include "support/catch.h"

namespace bench = ampctl::bench;
namespace data = ampctl::data;

namespace {

struct Set {
  Set() {
    plan.micro_batch = 3;
    plan.accumulation = 2;
    plan.global_batch = 6;
    plan.samples_per_epoch = 12;
    ampctl::config::DataConfig config;
    config.train.format = "synthetic";
    config.train.num_samples = 14;
    config.train.image_size = 4;
    config.train.num_classes = 2;
    data::LoaderOptions options;
    options.batch_size = 3;
    options.shard.window = 6;
    options.drop_last = true;
    options.num_workers = 1;
    loader = std::make_unique<data::Loader>(data::open_datasets(config, 0).train,
                                            std::vector<ampctl::config::TransformConfig>{}, options, &stop);
  }

  ampctl::config::RunPlan plan;
  std::atomic<bool> stop{false};
  std::unique_ptr<data::Loader> loader;
  ampctl::dist::World world = ampctl::dist::World::alone(c10::kCPU);
};

}  // namespace

TEST_CASE("Windows hold whole micro-batches, epoch after epoch") {
  Set set;
  bench::WindowSource windows(set.plan, *set.loader, set.world);
  for (int i = 0; i < 5; ++i) {
    const auto window = windows.next();
    REQUIRE(window.size() == 2);
    for (const auto& batch : window) CHECK(batch.size == 3);
  }
}

TEST_CASE("A request to stop gives an empty window") {
  Set set;
  bench::WindowSource windows(set.plan, *set.loader, set.world);
  (void)windows.next();
  set.stop = true;
  CHECK(windows.next().empty());
}
