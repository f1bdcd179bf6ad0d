#include "launch/doctor.h"

#include <algorithm>

#include "support/catch.h"

using namespace ampctl::launch;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

Host good_host() {
  Host host;
  host.cores = 16;
  host.usable_cores = 16;
  host.memory_bytes = 64 * kGiB;
  host.available_memory_bytes = 60 * kGiB;
  host.shared_memory = Space{32 * kGiB, 32 * kGiB};
  host.disk = Space{500 * kGiB, 400 * kGiB};
  host.nvidia_driver = "580.65.06";
  return host;
}

Probe good_probe() {
  Probe probe;
  probe.libtorch = "2.11.0";
  probe.cuda_built = "13.0";
  Gpu gpu;
  gpu.name = "NVIDIA H200";
  gpu.compute_capability = {9, 0};
  gpu.total_memory_bytes = 140 * kGiB;
  gpu.free_memory_bytes = 140 * kGiB - kGiB / 2;
  gpu.multiprocessors = 132;
  probe.gpus = {gpu};
  return probe;
}

bool warns(const std::vector<Finding>& findings, const std::string& part) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    CHECK_FALSE(finding.remedy.empty());
    return finding.problem.find(part) != std::string::npos;
  });
}

}  // namespace

// Expected values: CUDA C++ Programming Guide, tables of arithmetic throughput and tensor core data types.
TEST_CASE("Precision support follows the compute capability") {
  const auto check = [](ComputeCapability capability, Support float16, Support bfloat16, Support tf32,
                        Support fp8) {
    const auto support = precision_support(capability);
    INFO(capability.major << "." << capability.minor);
    CHECK(support.float16 == float16);
    CHECK(support.bfloat16 == bfloat16);
    CHECK(support.tf32 == tf32);
    CHECK(support.fp8 == fp8);
  };
  check({6, 1}, Support::emulated, Support::emulated, Support::none, Support::none);
  check({7, 0}, Support::native, Support::emulated, Support::none, Support::none);    // V100
  check({7, 5}, Support::native, Support::emulated, Support::none, Support::none);    // T4
  check({8, 0}, Support::native, Support::native, Support::native, Support::none);    // A100
  check({8, 6}, Support::native, Support::native, Support::native, Support::none);    // RTX 3090
  check({8, 9}, Support::native, Support::native, Support::native, Support::native);  // L40
  check({9, 0}, Support::native, Support::native, Support::native, Support::native);  // H200
  check({10, 0}, Support::native, Support::native, Support::native, Support::native);
}

TEST_CASE("A CPU is native in 16 bits only with the instructions for it") {
  CHECK(precision_support(std::vector<std::string>{}).bfloat16 == Support::emulated);
  CHECK(precision_support(std::vector<std::string>{"avx512_bf16"}).bfloat16 == Support::native);
  CHECK(precision_support(std::vector<std::string>{"avx512_bf16"}).float16 == Support::emulated);
  CHECK(precision_support(std::vector<std::string>{"amx_fp16"}).float16 == Support::native);
}

TEST_CASE("A good machine has no findings") { CHECK(examine(good_host(), good_probe()).empty()); }

TEST_CASE("Missing or outdated GPU set-ups are found") {
  Probe probe = good_probe();
  probe.gpus.clear();
  probe.cuda_error = "no NVIDIA driver";
  Host host = good_host();
  host.nvidia_driver.reset();
  CHECK(warns(examine(host, probe), "no usable GPU: no NVIDIA driver"));
  host.nvidia_driver = "535.104.05";
  CHECK(warns(examine(host, probe), "535.104.05 is too old for CUDA 13.0"));
  probe.cuda_built.reset();
  CHECK(warns(examine(host, probe), "built without CUDA"));
}

TEST_CASE("An old driver that serves its GPUs is left alone") {
  // Data-centre GPUs run newer CUDA on older drivers with NVIDIA's compatibility package.
  Host host = good_host();
  host.nvidia_driver = "535.104.05";
  CHECK(examine(host, good_probe()).empty());
}

TEST_CASE("GPUs that are too old, emulate bfloat16, are busy or partly missing are found") {
  Probe probe = good_probe();
  probe.gpus[0].compute_capability = {7, 0};
  CHECK(warns(examine(good_host(), probe), "compute capability 7.0"));
  probe.gpus[0].compute_capability = {7, 5};
  CHECK(warns(examine(good_host(), probe), "emulates bfloat16"));
  probe = good_probe();
  probe.gpus[0].free_memory_bytes = 100 * kGiB;
  CHECK(warns(examine(good_host(), probe), "40.0 GiB of its memory is in use"));
  probe = good_probe();
  probe.cuda_error = "GPU 1: fell off the bus";
  CHECK(warns(examine(good_host(), probe), "fell off the bus"));
}

TEST_CASE("Too few cores, memory, disk and shared memory are found") {
  Host host = good_host();
  host.usable_cores = 2;
  CHECK(warns(examine(host, good_probe()), "2 usable CPU cores (of 16) for 1 GPU"));
  CHECK(examine(host, {}).empty());
  host.usable_cores = 1;
  CHECK(warns(examine(host, {}), "only one CPU core"));
  host = good_host();
  host.memory_limit_bytes = kGiB;
  CHECK(warns(examine(host, {}), "1.0 GiB of memory"));
  host = good_host();
  host.disk->free_bytes = kGiB;
  CHECK(warns(examine(host, {}), "1.0 GiB left"));
  host = good_host();
  host.shared_memory = Space{64 * kGiB / 1024, 0};
  CHECK(warns(examine(host, {}), "/dev/shm holds only 64.0 MiB"));
  host.shared_memory.reset();
  CHECK(warns(examine(host, {}), "/dev/shm is not mounted"));
}
