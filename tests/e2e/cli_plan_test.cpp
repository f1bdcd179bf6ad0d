#include <nlohmann/json.hpp>

#include "e2e/programs.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;
using ampctl::test::ContainsSubstring;
using Json = nlohmann::json;

namespace {

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

// 60 images of 4 x 4 in three classes, as IDX (http://yann.lecun.com/exdb/mnist, "File formats").
void write_idx(const std::filesystem::path& folder) {
  constexpr uint32_t kSamples = 60;
  constexpr uint32_t kSide = 4;
  constexpr uint32_t kClasses = 3;
  std::string labels;
  for (uint32_t i = 0; i < kSamples; ++i) labels += static_cast<char>(i % kClasses);
  write_text(folder / "train-images-idx3-ubyte", big_endian(0x803) + big_endian(kSamples) +
                                                     big_endian(kSide) + big_endian(kSide) +
                                                     std::string(kSamples * kSide * kSide, 'x'));
  write_text(folder / "train-labels-idx1-ubyte", big_endian(0x801) + big_endian(kSamples) + labels);
}

std::string experiment(const std::filesystem::path& data, const std::string& device) {
  return "device: " + device +
         "\nmodel: {name: mlp}\n"
         "data:\n"
         "  batch_size: 8\n"
         "  train: {format: idx, path: " +
         data.string() +
         "}\n"
         "  split: {eval_fraction: 0.25}\n"
         "train: {epochs: 4, gradient_accumulation_steps: 2}\n";
}

struct Folder {
  TempDir dir;
  std::string file = (dir.path() / "plan.yaml").string();
  explicit Folder(const std::string& device) {
    write_idx(dir.path() / "data");
    write_text(file, experiment(dir.path() / "data", device));
  }
};

}  // namespace

TEST_CASE("plan counts the data and works out batches and steps, for people and as JSON") {
  const Folder folder("cpu");
  const auto result = run_ampctl({"plan", "-c", folder.file, "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const Json plan = Json::parse(result.out);
  // A quarter of 60 is kept for evaluation; windows of 8 x 2 make 3 an epoch, the last one shorter.
  CHECK(plan.at("train_samples") == 45);
  CHECK(plan.at("eval_samples") == 15);
  CHECK(plan.at("num_classes") == 3);
  CHECK(plan.at("global_batch") == 16);
  CHECK(plan.at("steps_per_epoch") == 3);
  CHECK(plan.at("total_windows") == 12);
  CHECK(plan.at("device") == "cpu");

  const auto text = run_ampctl({"plan", "-c", folder.file});
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, ContainsSubstring("global batch 16") && ContainsSubstring("45 training samples"));
  CHECK_FALSE(std::filesystem::exists("runs/default"));
}

TEST_CASE("plan does its arithmetic for another world, of any size") {
  const TempDir folder;
  const auto file = folder.path() / "small.yaml";
  write_text(file, small_experiment());
  for (const int world_size : {2, 4096, 100000}) {
    const auto result = run_ampctl({"plan", "-c", file.string(), "data.train.num_samples=2000000", "--json",
                                    "--world-size", std::to_string(world_size)});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    const auto plan = Json::parse(result.out);
    CHECK(plan.at("global_batch") == 10 * world_size);
    CHECK(plan.at("steps_per_epoch") == (2000000 + 10 * world_size - 1) / (10 * world_size));
  }
}

TEST_CASE("plan takes the world of the job that it runs in, or of the configuration") {
  const Folder folder("cpu");
  const auto result =
      run_ampctl({"plan", "-c", folder.file, "--json"},
                 {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=x", "MASTER_PORT=1"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(Json::parse(result.out).at("world_size") == 2);
  const auto configured = run_ampctl({"plan", "-c", folder.file, "--json", "distributed.world_size=2"});
  CHECK(Json::parse(configured.out).at("world_size") == 2);
}

TEST_CASE("plan asks the worker what `device: auto` means here, and nothing otherwise") {
  const Folder folder("auto");
  const auto cpu = fake_worker(folder.dir, R"(echo '{"libtorch":"2.11.0","openmp_threads":1,"gpus":[]}')");
  const auto result = run_ampctl({"plan", "-c", folder.file, "--json"}, {cpu});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(Json::parse(result.out).at("device") == "cpu");
  CHECK(run_ampctl({"plan", "-c", folder.file}, {"AMPCTL_WORKER=/nowhere"}).exit_code == 3);
  CHECK(run_ampctl({"plan", "-c", folder.file, "device=cpu"}, {"AMPCTL_WORKER=/nowhere"}).exit_code == 0);
  // A plan for a machine with GPUs can be made on one without.
  CHECK(Json::parse(run_ampctl({"plan", "-c", folder.file, "device=cuda", "--json"}).out).at("device") ==
        "cuda");
}

TEST_CASE("plan refuses data that is not there with exit code 3, naming it") {
  const Folder folder("cpu");
  const auto result = run_ampctl({"plan", "-c", folder.file, "data.train.path=/nowhere/digits"});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, ContainsSubstring("/nowhere/digits"));
}
