#include "data/loader.h"

#include <future>

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>

#include "base/error.h"
#include "data/toy_dataset.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/skip.h"

using namespace ampctl;
using test::ContainsSubstring;
using test::ToyDataset;

namespace {

config::TransformConfig named(const std::string& name, int64_t size = 0, int64_t padding = 0) {
  config::TransformConfig config;
  config.name = name;
  config.size = size;
  config.padding = padding;
  return config;
}

const std::vector<config::TransformConfig> kAugmented{named("random_crop", 3, 1), named("horizontal_flip")};

data::LoaderOptions options(int64_t batch_size, int64_t num_workers) {
  data::LoaderOptions options;
  options.batch_size = batch_size;
  options.num_workers = num_workers;
  options.seed = 42;
  return options;
}

std::vector<data::Batch> epoch_of(data::Loader& loader, int64_t epoch, int64_t start = 0) {
  loader.begin_epoch(epoch, start);
  std::vector<data::Batch> batches;
  while (auto batch = loader.next()) batches.push_back(*std::move(batch));
  return batches;
}

at::Tensor images_of(const std::vector<data::Batch>& batches) {
  std::vector<at::Tensor> parts;
  parts.reserve(batches.size());
  for (const auto& batch : batches) {
    if (batch.size > 0) parts.push_back(batch.images.cpu());
  }
  return at::cat(parts);
}

at::Tensor targets_of(const std::vector<data::Batch>& batches) {
  std::vector<at::Tensor> parts;
  parts.reserve(batches.size());
  for (const auto& batch : batches) parts.push_back(batch.targets.cpu());
  return at::cat(parts);
}

std::vector<int64_t> sizes_of(const std::vector<data::Batch>& batches) {
  std::vector<int64_t> sizes;
  sizes.reserve(batches.size());
  for (const auto& batch : batches) sizes.push_back(batch.size);
  return sizes;
}

}  // namespace

TEST_CASE("The same batches come out for any number of threads") {
  auto toy = std::make_shared<ToyDataset>(101);
  toy->dawdle = true;
  data::Loader alone(toy, kAugmented, options(8, 0), nullptr);
  std::vector<std::vector<data::Batch>> expected;
  for (int64_t epoch = 0; epoch < 4; ++epoch) expected.push_back(epoch_of(alone, epoch));
  CHECK(expected[0].size() == 13);
  CHECK(expected[0].back().size == 5);
  CHECK_FALSE(at::equal(targets_of(expected[0]), targets_of(expected[1])));
  for (const int64_t workers : {1, 2, 7}) {
    data::Loader loader(toy, kAugmented, options(8, workers), nullptr);
    // One epoch after another, of which the beginnings are decoded early, and a leap.
    for (const size_t epoch : {0, 1, 2, 3, 1}) {
      const auto batches = epoch_of(loader, static_cast<int64_t>(epoch));
      CHECK(at::equal(images_of(batches), images_of(expected[epoch])));
      CHECK(at::equal(targets_of(batches), targets_of(expected[epoch])));
    }
  }
}

TEST_CASE("A queue deeper than an epoch holds several of them in order") {
  const auto toy = std::make_shared<ToyDataset>(5);
  data::Loader alone(toy, {}, options(2, 0), nullptr);
  data::Loader loader(toy, {}, options(2, 4), nullptr);
  for (int64_t epoch = 0; epoch < 6; ++epoch) {
    CHECK(at::equal(images_of(epoch_of(loader, epoch)), images_of(epoch_of(alone, epoch))));
    CHECK_FALSE(loader.next());
  }
}

TEST_CASE("An epoch begun in its middle goes on with the very same samples") {
  const auto toy = std::make_shared<ToyDataset>(50);
  data::Loader loader(toy, kAugmented, options(8, 2), nullptr);
  const auto whole = epoch_of(loader, 1);
  for (const int64_t start : {8, 16, 11, 48, 50}) {
    INFO("from position " << start);
    const auto rest = epoch_of(loader, 1, start);
    if (start == 50) {
      CHECK(rest.empty());
      continue;
    }
    CHECK(at::equal(images_of(rest), images_of(whole).narrow(0, start, 50 - start)));
    CHECK(at::equal(targets_of(rest), targets_of(whole).narrow(0, start, 50 - start)));
    // Batches keep their boundaries: the first one only runs up to the next multiple of 8.
    CHECK(rest.front().size == std::min<int64_t>(8 - start % 8, 50 - start));
  }
  CHECK_THROWS_AS(loader.begin_epoch(1, 51), Error);
}

TEST_CASE("An epoch that is left early does not disturb the next one") {
  const auto toy = std::make_shared<ToyDataset>(200);
  data::Loader loader(toy, kAugmented, options(4, 3), nullptr);
  const auto expected = epoch_of(loader, 2);
  for (int i = 0; i < 20; ++i) {
    loader.begin_epoch(7, 0);
    for (int k = 0; k < i % 4; ++k) REQUIRE(loader.next());
  }
  CHECK(at::equal(images_of(epoch_of(loader, 2)), images_of(expected)));
}

TEST_CASE("Evaluation sees each sample once, in order, the last batch shorter") {
  const auto toy = std::make_shared<ToyDataset>(21);
  auto unshuffled = options(8, 2);
  unshuffled.shuffle = false;
  data::Loader loader(toy, {}, unshuffled, nullptr);
  const auto batches = epoch_of(loader, 0);
  CHECK(sizes_of(batches) == std::vector<int64_t>{8, 8, 5});
  const at::Tensor first_pixels = images_of(batches).select(3, 0).select(2, 0).flatten().mul(255.0).round();
  for (int64_t i = 0; i < 21; ++i) {
    CHECK(first_pixels[i].item<double>() == static_cast<double>(i));
    CHECK(targets_of(batches)[i].item<int64_t>() == i % 5);
  }
  unshuffled.drop_last = true;
  data::Loader dropping(toy, {}, unshuffled, nullptr);
  CHECK(sizes_of(epoch_of(dropping, 0)) == std::vector<int64_t>{8, 8});
}

TEST_CASE("Images come out normalised, in the dtype and layout asked for") {
  const auto toy = std::make_shared<ToyDataset>(4);
  auto normalize = named("normalize");
  normalize.mean = {0.5};
  normalize.std = {0.25};
  auto wanted = options(4, 1);
  wanted.shuffle = false;
  wanted.dtype = c10::kHalf;
  wanted.channels_last = true;
  data::Loader loader(toy, {normalize}, wanted, nullptr);
  const auto batch = epoch_of(loader, 0).front();
  CHECK(batch.images.scalar_type() == at::kHalf);
  CHECK(batch.images.sizes() == at::IntArrayRef({4, 1, 4, 4}));
  CHECK(batch.images.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(batch.targets.scalar_type() == at::kLong);
  // Sample 2, pixel 1 of row 1: byte 2 + 3 * 5.
  CHECK(batch.images[2][0][1][1].item<double>() == Approx((17.0 / 255.0 - 0.5) / 0.25).epsilon(1e-3));
}

TEST_CASE("A damaged sample ends the epoch with an error that names it, at its own batch") {
  auto toy = std::make_shared<ToyDataset>(40);
  toy->damaged = {13, 14};
  toy->dawdle = true;
  auto unshuffled = options(5, 3);
  unshuffled.shuffle = false;
  data::Loader loader(toy, {}, unshuffled, nullptr);
  loader.begin_epoch(0, 0);
  CHECK(loader.next());
  CHECK(loader.next());
  CHECK_THROWS_WITH(loader.next(), ContainsSubstring("toy/13.jpg"));
  int64_t rest = 0;
  while (loader.next()) ++rest;
  CHECK(rest == 5);
}

TEST_CASE("Damaged samples are skipped, counted once and named a few times where asked") {
  auto toy = std::make_shared<ToyDataset>(40);
  toy->damaged = {3, 5, 6, 7, 8, 9, 20};
  auto skipping = options(5, 2);
  skipping.shuffle = false;
  skipping.skip_corrupt = true;
  data::Loader loader(toy, {}, skipping, nullptr);
  const auto batches = epoch_of(loader, 0);
  CHECK(sizes_of(batches) == std::vector<int64_t>{4, 0, 5, 5, 4, 5, 5, 5});
  CHECK_FALSE(batches[1].images.defined());
  CHECK(batches[1].corrupt == 5);
  for (const auto& batch : batches) CHECK(batch.consumed == 5);
  // What stays moves up: 0, 1, 2, 4.
  CHECK(batches[0].images[3][0][0][0].item<double>() == Approx(4.0 / 255.0));
  CHECK(batches[0].targets[3].item<int64_t>() == 4);
  CHECK(loader.corrupt_count() == 7);
  const auto warnings = loader.take_warnings();
  REQUIRE(warnings.size() == 6);
  CHECK_THAT(warnings[0], ContainsSubstring("toy/3.jpg"));
  CHECK_THAT(warnings[5], ContainsSubstring("counted, not named"));
  epoch_of(loader, 1);
  CHECK(loader.corrupt_count() == 7);
  CHECK(loader.take_warnings().empty());

  skipping.max_corrupt = 6;
  data::Loader capped(toy, {}, skipping, nullptr);
  CHECK_THROWS_WITH(epoch_of(capped, 0), ContainsSubstring("max_corrupt") && ContainsSubstring("toy/20.jpg"));
  toy->damaged = {};
  toy->missing = {4};
  data::Loader missing(toy, {}, skipping, nullptr);
  CHECK_THROWS_WITH(epoch_of(missing, 0), ContainsSubstring("toy/4.jpg"));
}

TEST_CASE("Images of different sizes in a batch are refused with both names") {
  auto toy = std::make_shared<ToyDataset>(4);
  toy->wide = {2};
  auto one_by_one = options(4, 0);
  one_by_one.shuffle = false;
  data::Loader loader(toy, {}, one_by_one, nullptr);
  CHECK_THROWS_WITH(epoch_of(loader, 0), ContainsSubstring("toy/0.jpg has 4x4") &&
                                             ContainsSubstring("toy/2.jpg has 5x4") &&
                                             ContainsSubstring("resize"));
}

TEST_CASE("A loader destroyed in mid-epoch ends at once") {
  auto toy = std::make_shared<ToyDataset>(10000);
  toy->dawdle = true;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    data::Loader loader(toy, kAugmented, options(16, 4), nullptr);
    loader.begin_epoch(0, 0);
    if (i % 2 == 1) CHECK(loader.next());
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("The time waited is told, and the next epoch is decoded before it begins") {
  auto toy = std::make_shared<ToyDataset>(200);
  toy->dawdle = true;
  data::Loader loader(toy, {}, options(200, 1), nullptr);
  const auto batches = epoch_of(loader, 0);
  // 200 samples that take 150 microseconds each on average.
  CHECK(batches.front().wait_seconds > 0.015);
  CHECK(batches.front().wait_seconds < 10.0);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK(epoch_of(loader, 1).front().wait_seconds < 0.005);
}

TEST_CASE("Loaders with impossible options are refused") {
  const auto toy = std::make_shared<ToyDataset>(4);
  CHECK_THROWS_AS(data::Loader(toy, {}, options(0, 1), nullptr), Error);
  CHECK_THROWS_AS(data::Loader(toy, {}, options(1, -1), nullptr), Error);
  CHECK_THROWS_AS(data::Loader(std::make_shared<ToyDataset>(0), {}, options(1, 1), nullptr), Error);
}

TEST_CASE("Batches on the GPU are those of the CPU", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  auto toy = std::make_shared<ToyDataset>(1000);
  toy->dawdle = true;
  auto wanted = options(16, 4);
  wanted.dtype = c10::kHalf;
  wanted.channels_last = true;
  data::Loader on_cpu(toy, kAugmented, wanted, nullptr);
  wanted.device = c10::Device(c10::kCUDA, 0);
  for (const bool pinned : {true, false}) {
    for (const int64_t workers : {0, 4}) {
      wanted.pin_memory = pinned;
      wanted.num_workers = workers;
      data::Loader on_gpu(toy, kAugmented, wanted, nullptr);
      for (const int64_t epoch : {0, 1}) {
        const auto expected = epoch_of(on_cpu, epoch);
        const auto found = epoch_of(on_gpu, epoch);
        CHECK(found.front().images.is_cuda());
        CHECK(at::equal(images_of(found), images_of(expected)));
        CHECK(at::equal(targets_of(found), targets_of(expected)));
      }
    }
  }
}
