#include "data/idx_dataset.h"

#include <sstream>

#include <zlib.h>

#include "support/catch.h"
#include "support/process.h"
#include "support/skip.h"

using namespace ampctl;

TEST_CASE("The shared MNIST digits read as Python reads them, and split as asked") {
  const auto folder = test::shared_data_dir();
  if (folder.empty()) return test::skip("no folder with shared test data");
  if (!test::python_has({"numpy"})) return test::skip("Python has no numpy");
  const auto mnist = folder / "mnist-10k";
  config::DataConfig config;
  config.train.format = "idx";
  config.train.images = (mnist / "t10k-images-idx3-ubyte.gz").string();
  config.train.labels = (mnist / "t10k-labels-idx1-ubyte.gz").string();
  const data::DatasetPtr digits = data::open_datasets(config, 1).train;

  uint64_t pixel_sum = 0;
  int64_t label_sum = 0;
  uLong crc = crc32(0, nullptr, 0);
  for (int64_t i = 0; i < digits->size(); ++i) {
    const data::Sample sample = digits->get(i);
    for (const uint8_t pixel : sample.image.pixels) pixel_sum += pixel;
    crc = crc32(crc, sample.image.pixels.data(), static_cast<uInt>(sample.image.pixels.size()));
    label_sum += (i + 1) * sample.target;
  }
  const auto facts = digits->facts();
  std::ostringstream found;
  found << digits->size() << ' ' << facts.height << ' ' << facts.width << ' ' << pixel_sum << ' ' << label_sum
        << ' ' << crc << '\n';
  const auto script = test::source_dir() / "tests" / "reference" / "data_listing.py";
  const auto expected =
      test::run({test::python(), script.string(), "idx", *config.train.images, *config.train.labels});
  INFO(expected.err);
  CHECK(found.str() == expected.out);

  config.split.eval_fraction = 0.2;
  const data::TrainEval parts = data::open_datasets(config, 1);
  CHECK(parts.train->size() == 8000);
  CHECK(parts.eval->size() == 2000);
  CHECK(parts.eval->facts().num_samples == 2000);
  CHECK(parts.eval->class_names() == digits->class_names());
  CHECK(parts.eval->get(7).target == parts.eval->targets()[7]);
}
