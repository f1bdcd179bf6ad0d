// One measurement: what is printed, what is written, what data it runs on.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "e2e/bench/runs.h"
#include "support/background_process.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;

namespace {

constexpr int kPreempted = 75;

}  // namespace

TEST_CASE("A measurement prints throughput, waits, rates, memory, phases and the longest operators") {
  const BenchRun bench;
  const auto result = bench.run({"--kernels", "3"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  for (const char* part :
       {"lenet", "batch 10 (10 x accumulation 1 x processes 1)", "throughput", "samples/s",
        "median of 2 blocks of 2 steps", "first step", "data wait", "compute", "traffic", "peak memory",
        "phases", "forward", "backward", "optimizer", "loss", "operator", "aten::"})
    CHECK_THAT(result.out, ContainsSubstring(part));
  CHECK_THAT(result.err, ContainsSubstring("ampctl: first step after "));
  // Nothing stays: neither a run's folder nor scratch files.
  CHECK_FALSE(std::filesystem::exists(bench.folder() / "runs"));
}

TEST_CASE("JSON holds every figure, with versions and the command") {
  const BenchRun bench;
  const Json document = bench.json({});
  for (const char* key : {"ampctl", "commit", "command", "started", "host", "variants"})
    CHECK(document.contains(key));
  CHECK(document["command"][0] == "bench");
  REQUIRE(document["variants"].size() == 1);
  const Json& variant = document["variants"][0];
  CHECK(variant["error"].is_null());
  CHECK(variant["exit_code"] == 0);
  const Json& result = variant["result"];
  for (const char* key :
       {"device", "libraries", "workload", "warmup_steps", "steps_a_block", "block_step_seconds",
        "step_seconds", "samples_per_sec", "data_wait_seconds", "first_step_seconds", "memory", "loss",
        "skipped_steps", "rates", "phases", "profile"})
    CHECK(result.contains(key));
  CHECK(result["workload"]["global_batch"] == 10);
  CHECK(result["workload"]["resident"] == false);
  CHECK(result["block_step_seconds"].size() == 2);
  CHECK(result["libraries"]["libtorch"].get<std::string>().rfind("2.11", 0) == 0);
  // LeNet's forward pass on 28x28: far more than its 61,706 weights, counted three times for ten samples.
  CHECK(result["rates"]["flops_a_step"].get<double>() > 3 * 10 * 2 * 61706.0);
  CHECK(result["rates"]["bytes_a_step"].get<double>() > 0.0);
  CHECK(result["phases"]["forward"].get<double>() > 0.0);
  CHECK(result["phases"]["backward"].get<double>() > 0.0);
  CHECK(result["phases"]["optimizer"].get<double>() > 0.0);
  double shares = 0.0;
  for (const auto& kernel : result["profile"]["kernels"]) shares += kernel["share"].get<double>();
  CHECK(shares == Approx(1.0));
  CHECK(result["first_step_seconds"].get<double>() > 0.0);
}

TEST_CASE("--json FILE writes beside the tables; --no-profile leaves out what costs time") {
  const BenchRun bench;
  const auto file = bench.folder() / "out.json";
  const auto result = bench.run({"--no-profile", "--json", file.string()});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("throughput") && !ContainsSubstring("phases"));
  const Json document = Json::parse(std::ifstream(file));
  CHECK(document["variants"][0]["result"]["profile"].is_null());
  CHECK(document["variants"][0]["result"]["rates"]["limits"].is_null());
}

TEST_CASE("--synthetic stands in for data that is not there, at the size of its transforms") {
  const BenchRun bench;
  write_text(bench.folder() / "photos.yaml", R"(device: cpu
model: {name: resnet18, num_classes: 7}
data:
  batch_size: 2
  train:
    format: image_folder
    path: /nowhere
    transforms: [{random_resized_crop: 32}, horizontal_flip]
train: {epochs: 1}
amp: {dtype: bfloat16}
)");
  const std::vector<std::string> command{"bench",   "-c",       (bench.folder() / "photos.yaml").string(),
                                         "--steps", "1",        "--blocks",
                                         "1",       "--warmup", "1",
                                         "--json",  "-",        "--no-profile"};
  const auto missing = run_ampctl(command);
  CHECK(missing.exit_code == 3);
  CHECK_THAT(missing.err, ContainsSubstring("/nowhere"));

  auto with = command;
  with.emplace_back("--synthetic");
  const auto result = run_ampctl(with);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const Json work = Json::parse(result.out)["variants"][0]["result"]["workload"];
  CHECK(work["input"] == Json({3, 32, 32}));
  CHECK(work["data"] == "synthetic");
  CHECK(work["resident"] == true);
}

TEST_CASE("Accumulation and two processes count in the global batch") {
  const BenchRun bench;
  const Json result =
      bench.json({"--no-profile", "--resident", "data.batch_size=5", "train.gradient_accumulation_steps=2",
                  "distributed.world_size=2"})["variants"][0]["result"];
  CHECK(result["workload"]["world_size"] == 2);
  CHECK(result["workload"]["global_batch"] == 20);
  const double step = result["step_seconds"]["median"];
  CHECK(result["samples_per_sec"]["median"].get<double>() == Approx(20 / step).epsilon(0.2));
}

TEST_CASE("A signal ends a measurement at its next step, with 75 and nothing left behind") {
  const BenchRun bench;
  const TempDir scratch;
  BackgroundProcess process(
      {kAmpctl, "bench", "-c", bench.config(), "--steps", "1000000", "--compare", "seed=1,2"},
      bench.folder() / "out", {"TMPDIR=" + scratch.path().string()});
  constexpr std::chrono::seconds kPatience(60);
  REQUIRE(eventually([&] { return process.output().find("first step") != std::string::npos; }, kPatience));
  process.signal(SIGTERM);
  CHECK(process.wait(kPatience) == kPreempted);
  INFO(process.output());
  CHECK_THAT(process.output(), ContainsSubstring("stopped by a signal") && !ContainsSubstring("2 of 2"));
  CHECK(std::filesystem::is_empty(scratch.path()));
}
