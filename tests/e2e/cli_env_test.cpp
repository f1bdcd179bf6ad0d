#include <nlohmann/json.hpp>

#include "e2e/programs.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;
using ampctl::test::ContainsSubstring;
using Json = nlohmann::json;

namespace {

constexpr const char* kGpuProbe =
    R"(cat <<'END'
{"libtorch":"2.11.0","cuda_built":"13.0","cudnn":"9.19.0","nccl":"2.28.9","openmp_threads":8,"cuda_driver":"13.0",
 "gpus":[{"index":0,"name":"Tesla T4","compute_capability":[7,5],"total_memory_bytes":17179869184,
          "free_memory_bytes":16642998272,"multiprocessors":40}],"cuda_error":null}
END)";

}  // namespace

TEST_CASE("env --json tells host, libraries, GPUs with their precision, and warnings") {
  const TempDir folder;
  const auto result = run_ampctl({"env", "--json"}, {fake_worker(folder, kGpuProbe)});
  CHECK(result.exit_code == 0);
  const Json env = Json::parse(result.out);
  CHECK(env.at("libraries").at("nccl") == "2.28.9");
  CHECK(env.at("host").at("usable_cores").get<int>() >= 1);
  CHECK(env.at("host").at("memory_bytes").get<uint64_t>() > 0);
  CHECK(env.at("host").contains("shared_memory"));
  CHECK(env.at("worker_error").is_null());
  REQUIRE(env.at("gpus").size() == 1);
  CHECK(env.at("gpus")[0].at("precision") ==
        Json{{"float16", "native"}, {"bfloat16", "emulated"}, {"tf32", "no"}, {"fp8", "no"}});
  CHECK_THAT(env.at("warnings").dump(), ContainsSubstring("emulates bfloat16"));
}

TEST_CASE("env shows the same to people") {
  const TempDir folder;
  const auto result = run_ampctl({"env"}, {fake_worker(folder, kGpuProbe)});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("Tesla T4, compute capability 7.5, 15.5 GiB free of 16.0 GiB"));
  CHECK_THAT(result.out, ContainsSubstring("float16 native, bfloat16 emulated, TF32 no, FP8 no"));
  CHECK_THAT(result.out, ContainsSubstring("LibTorch") &&
                             ContainsSubstring("2.11.0, CUDA 13.0, cuDNN 9.19.0, NCCL 2.28.9"));
  CHECK_THAT(result.out, ContainsSubstring("warning: GPU 0 (Tesla T4) only emulates bfloat16"));
}

TEST_CASE("env without a working worker still tells the rest, and exits with 3") {
  const auto result = run_ampctl({"env", "--json"}, {"AMPCTL_WORKER=/nowhere/worker"});
  CHECK(result.exit_code == 3);
  const Json env = Json::parse(result.out);
  CHECK(env.at("libraries").is_null());
  CHECK_THAT(env.at("worker_error").get<std::string>(), ContainsSubstring("/nowhere/worker"));
  CHECK(env.at("host").at("cores").get<int>() >= 1);
}

TEST_CASE("The worker's own probe answers on this machine", "[gpu]") {
  const auto result = run_ampctl({"env", "--json"}, {"AMPCTL_WORKER=" + kWorker});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  const Json env = Json::parse(result.out);
  CHECK_THAT(env.at("libraries").at("libtorch").get<std::string>(), ampctl::test::StartsWith("2.11."));
  CHECK(env.at("libraries").at("openmp_threads").get<int>() >= 1);
  CHECK(env.at("gpus").empty() != env.at("libraries").at("cuda_error").is_null());
  // A machine with a driver shows its GPUs; one without is told apart, not skipped.
  CHECK(env.at("gpus").empty() == env.at("host").at("nvidia_driver").is_null());
  for (const auto& gpu : env.at("gpus")) {
    CHECK(gpu.at("free_memory_bytes").get<uint64_t>() <= gpu.at("total_memory_bytes").get<uint64_t>());
    CHECK(gpu.at("compute_capability").size() == 2);
    CHECK(gpu.at("multiprocessors").get<int>() > 0);
  }
}
