#include "catalog/datasets.h"

#include "base/error.h"
#include "catalog/idx_files.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/process.h"
#include "support/skip.h"

namespace fs = std::filesystem;
using namespace ampctl;
using test::ContainsSubstring;

namespace {

catalog::Sources idx_config(const fs::path& folder) {
  catalog::Sources config;
  config.train.format = "idx";
  config.train.path = folder.string();
  return config;
}

catalog::Source folder_config(const fs::path& root) {
  catalog::Source config;
  config.format = "image_folder";
  config.path = root.string();
  return config;
}

void touch(const fs::path& path) {
  fs::create_directories(path.parent_path());
  test::write_file(path, "");
}

}  // namespace

TEST_CASE("IDX data is counted with its classes and sizes") {
  const test::TempDir dir;
  test::write_idx_pair(dir.path(), "train-", 7);
  test::write_idx_pair(dir.path(), "t10k-", 2, 2);
  catalog::Sources config = idx_config(dir.path());
  CHECK_FALSE(catalog::count(config).eval);
  config.eval = config.train;
  const catalog::DataFacts facts = catalog::count(config);
  CHECK(facts.train.num_samples == 7);
  CHECK(facts.train.num_classes == 3);
  CHECK(facts.train.channels == 1);
  CHECK(facts.train.height == 2);
  CHECK(facts.train.width == 3);
  REQUIRE(facts.eval);
  CHECK(facts.eval->num_samples == 2);
  CHECK(facts.eval->num_classes == 3);
  CHECK(facts.class_names == std::vector<std::string>{"0", "1", "2"});
}

TEST_CASE("IDX images and labels of different number are refused") {
  const test::TempDir dir;
  test::write_idx_pair(dir.path(), "train-", 7);
  test::write_file(dir.path() / "train-labels-idx1-ubyte", test::idx_bytes({6}, std::string(6, '\0')));
  CHECK_THROWS_WITH(catalog::count(idx_config(dir.path())),
                    ContainsSubstring("7 images") && ContainsSubstring("6 labels"));
}

TEST_CASE("Evaluation labels beyond training's classes are refused") {
  const test::TempDir dir;
  test::write_idx_pair(dir.path(), "train-", 9, 3);
  test::write_idx_pair(dir.path(), "t10k-", 9, 5);
  catalog::Sources config = idx_config(dir.path());
  config.eval = config.train;
  CHECK_THROWS_WITH(catalog::count(config), ContainsSubstring("only in evaluation: 3, 4"));
}

TEST_CASE("Image folders with different classes are refused with the difference") {
  const test::TempDir dir;
  for (const char* name : {"train/cat/1.jpg", "train/cow/1.jpg", "train/cow/2.jpg", "val/cat/1.jpg"}) {
    touch(dir.path() / name);
  }
  catalog::Sources config;
  config.train = folder_config(dir.path() / "train");
  config.eval = folder_config(dir.path() / "val");
  CHECK_THROWS_WITH(catalog::count(config), ContainsSubstring("only in training: cow") &&
                                                ContainsSubstring("only in evaluation: none"));
  touch(dir.path() / "val/cow/1.png");
  const catalog::DataFacts facts = catalog::count(config);
  CHECK(facts.train.num_samples == 3);
  CHECK(facts.eval->num_samples == 2);
  CHECK(facts.train.channels == 3);
  CHECK(facts.train.height == 0);
  CHECK(facts.class_names == std::vector<std::string>{"cat", "cow"});
}

TEST_CASE("A split takes the nearest whole number of samples, and leaves neither part empty") {
  CHECK(catalog::split_eval_samples(1797, 0.25) == 449);
  CHECK(catalog::split_eval_samples(10000, 0.2) == 2000);
  CHECK_THROWS_AS(catalog::split_eval_samples(3, 0.1), Error);
  CHECK_THROWS_AS(catalog::split_eval_samples(3, 0.9), Error);
  catalog::Sources config;
  config.train.format = "synthetic";
  config.train.num_samples = 10;
  config.eval_fraction = 0.3;
  const catalog::DataFacts facts = catalog::count(config);
  CHECK(facts.train.num_samples == 7);
  CHECK(facts.eval->num_samples == 3);
  config.eval = config.train;
  CHECK_THROWS_WITH(catalog::count(config), ContainsSubstring("eval_fraction"));
}

TEST_CASE("The shared MNIST digits are counted from one source split in two") {
  const fs::path data = test::shared_data_dir();
  if (data.empty()) return test::skip("no folder with shared test data");
  catalog::Sources config = idx_config(data / "mnist-10k");
  config.eval_fraction = 0.2;
  const catalog::DataFacts facts = catalog::count(config);
  CHECK(facts.train.num_samples == 8000);
  CHECK(facts.eval->num_samples == 2000);
  CHECK(facts.train.num_classes == 10);
  CHECK(facts.train.height == 28);
}
