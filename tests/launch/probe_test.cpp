#include "launch/probe.h"

#include <fstream>

#include "base/error.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/process.h"

using ampctl::Error;
using ampctl::ErrorKind;
using ampctl::launch::parse_probe;
using ampctl::launch::run_probe;
using ampctl::test::TempDir;

namespace {

constexpr const char* kAnswer =
    R"({"libtorch":"2.11.0","cuda_built":"13.0","cudnn":null,"nccl":"2.28.9","openmp_threads":8,"cuda_driver":"13.1",
        "gpus":[{"index":0,"name":"NVIDIA H200","compute_capability":[9,0],"total_memory_bytes":150754820096,
                 "free_memory_bytes":null,"multiprocessors":132}],"cuda_error":null})";

std::filesystem::path script(const TempDir& folder, const std::string& body) {
  auto path = folder.path() / "worker";
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

std::string failure_of(const std::filesystem::path& worker,
                       std::chrono::seconds timeout = std::chrono::seconds(60)) {
  try {
    static_cast<void>(run_probe(worker, timeout));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::environment);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A probe's answer is read, with nothing where it says null") {
  const auto probe = parse_probe(kAnswer);
  CHECK(probe.libtorch == "2.11.0");
  CHECK(probe.cuda_built == std::string("13.0"));
  CHECK_FALSE(probe.cudnn);
  CHECK(probe.openmp_threads == 8);
  REQUIRE(probe.gpus.size() == 1);
  CHECK(probe.gpus[0].compute_capability == ampctl::launch::ComputeCapability{9, 0});
  CHECK_FALSE(probe.gpus[0].free_memory_bytes);
  CHECK(probe.gpus[0].total_memory_bytes == 150754820096);
  CHECK_FALSE(probe.cuda_error);
}

TEST_CASE("An answer that is not a probe's is an environment error") {
  CHECK_THROWS_AS(parse_probe("not json"), Error);
  CHECK_THROWS_AS(parse_probe("{}"), Error);
  CHECK_THROWS_AS(parse_probe(R"({"libtorch": 2, "openmp_threads": 1, "gpus": []})"), Error);
}

TEST_CASE("The worker is run with --probe and its output read") {
  const TempDir folder;
  const auto probe = run_probe(
      script(folder, std::string("[ \"$1\" = --probe ] || exit 9\ncat <<'END'\n") + kAnswer + "\nEND"));
  CHECK(probe.gpus.size() == 1);
}

TEST_CASE("A probe that fails, is killed or hangs is reported as what it is") {
  const TempDir folder;
  CHECK_THAT(failure_of(script(folder, "exit 127")), ampctl::test::ContainsSubstring("exit code 127"));
  CHECK_THAT(failure_of(script(folder, "kill -9 $$")), ampctl::test::ContainsSubstring("signal 9"));
  CHECK_THAT(failure_of(script(folder, "exec sleep 60"), std::chrono::seconds(1)),
             ampctl::test::ContainsSubstring("did not answer within 1 s"));
  CHECK_THAT(failure_of(folder.path() / "absent"), ampctl::test::ContainsSubstring("could not start"));
}
