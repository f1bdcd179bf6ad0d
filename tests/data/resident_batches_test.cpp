#include "data/resident_batches.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>

#include "data/loader.h"
#include "data/synthetic_dataset.h"
#include "support/catch.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

const config::DatasetFacts kFacts{40, 7, 3, 5, 5};

bool same(const data::Batch& a, const data::Batch& b) {
  return at::equal(a.images.cpu(), b.images.cpu()) && at::equal(a.targets.cpu(), b.targets.cpu());
}

}  // namespace

TEST_CASE("Synthetic samples depend on seed and index alone") {
  const data::SyntheticDataset set(kFacts, 3);
  const data::SyntheticDataset again(kFacts, 3);
  const data::SyntheticDataset other(kFacts, 4);
  CHECK(set.get(9).image.pixels == again.get(9).image.pixels);
  CHECK(set.targets() == again.targets());
  CHECK(set.get(9).image.pixels != set.get(10).image.pixels);
  CHECK(set.get(9).image.pixels != other.get(9).image.pixels);
  CHECK(set.targets() != other.targets());
  CHECK(set.class_names().size() == 7);
}

TEST_CASE("Resident batches repeat by epoch and position, and a part of one is that part") {
  const data::SyntheticDataset set(kFacts, 3);
  const data::DeviceStage stage(c10::kCPU, data::Transforms({}).affine(3), c10::kFloat, true);
  const data::ResidentBatches batches(set, 8, stage);
  CHECK(same(batches.at(0, 0, 8), batches.at(0, 32, 8)));
  CHECK(same(batches.at(1, 0, 8), batches.at(0, 8, 8)));
  CHECK_FALSE(same(batches.at(0, 0, 8), batches.at(0, 8, 8)));
  const data::Batch part = batches.at(0, 19, 3);
  CHECK(part.size == 3);
  CHECK(part.consumed == 3);
  CHECK(at::equal(part.images, batches.at(0, 16, 8).images.narrow(0, 3, 3)));
  CHECK(part.images.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(part.targets[0].item<int64_t>() == set.targets()[19]);
}

TEST_CASE("Synthetic training on a GPU repeats resident batches, and resumes exactly", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const auto set = std::make_shared<data::SyntheticDataset>(kFacts, 3);
  data::LoaderOptions options;
  options.batch_size = 8;
  options.device = c10::Device(c10::kCUDA, 0);
  data::Loader loader(set, {}, options, nullptr);
  loader.begin_epoch(2, 0);
  std::vector<data::Batch> whole;
  while (auto batch = loader.next()) whole.push_back(*std::move(batch));
  REQUIRE(whole.size() == 5);
  CHECK(whole[0].images.data_ptr() == whole[4].images.data_ptr());
  loader.begin_epoch(2, 16);
  for (size_t i = 2; i < 5; ++i) {
    const auto batch = loader.next();
    REQUIRE(batch);
    CHECK(same(*batch, whole[i]));
  }
  CHECK_FALSE(loader.next());
}
