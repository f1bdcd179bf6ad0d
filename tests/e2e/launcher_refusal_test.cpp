// What is refused before anything starts, and processes that others have launched.
#include "e2e/launcher.h"
#include "e2e/programs.h"
#include "launch/store_socket.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;

namespace {

ProcessResult refused(const LightRun& light, const std::vector<std::string>& flags,
                      const std::vector<std::string>& env = {}) {
  auto result = light.run(flags, env);
  CHECK(result.out.empty());
  CHECK_FALSE(std::filesystem::exists(light.folder() / "run"));
  return result;
}

}  // namespace

TEST_CASE("Contradictions of flags, configuration and each other are usage errors") {
  const LightRun light;
  auto result = refused(light, {"--nproc-per-node", "2", "distributed.world_size=3"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("distributed.world_size is 3"));
  result = refused(light, {"--nnodes", "1:2"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("torchrun"));
  result = refused(light, {"--nnodes", "2"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("--node-rank"));
  result = refused(light, {"--nproc_per_nod", "2"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("did you mean '--nproc-per-node'"));
}

TEST_CASE("More ranks than GPUs are an environment error, in a moment") {
  const LightRun light;
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"device=cuda", "--nproc-per-node", "2"},
        std::vector<std::string>{"device=cuda", "distributed.world_size=2"}}) {
    const auto result = refused(light, flags, {"CUDA_VISIBLE_DEVICES="});
    CHECK(result.exit_code == 3);
    CHECK_THAT(result.err, ContainsSubstring("0 GPUs are visible"));
  }
}

TEST_CASE("A port in use is an environment error that names it") {
  const LightRun light;
  const auto taken = ampctl::launch::open_store_socket("127.0.0.1", {});
  const auto result = light.run({"--nproc-per-node", "2", "--master-port", std::to_string(taken.port)});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, ContainsSubstring("port " + std::to_string(taken.port) + " on 127.0.0.1 is in use"));
  CHECK(result.out.empty());
}

TEST_CASE("A log folder that cannot be made is an environment error") {
  const LightRun light;
  write_text(light.folder() / "file", "");
  const auto result =
      light.run({"--nproc-per-node", "2", "--log-dir", (light.folder() / "file/logs").string()});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, ContainsSubstring("file/logs"));
}

TEST_CASE("In a job that others launched it is the worker of its rank, and launches nothing") {
  const LightRun light;
  const TempDir folder;
  const std::vector<std::string> torchrun{"RANK=1",
                                          "LOCAL_RANK=1",
                                          "WORLD_SIZE=2",
                                          "LOCAL_WORLD_SIZE=2",
                                          "MASTER_ADDR=127.0.0.1",
                                          "MASTER_PORT=4000",
                                          fake_worker(folder, "echo rank $RANK")};
  CHECK(light.run({}, torchrun).out == "rank 1\n");
  CHECK(light.run({"distributed.world_size=2"}, torchrun).out == "rank 1\n");
  auto result = light.run({"distributed.world_size=3"}, torchrun);
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("torchrun says WORLD_SIZE=2"));
  result = light.run({"--nproc-per-node", "2"}, torchrun);
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("--nproc-per-node 2 starts processes") &&
                             ContainsSubstring("already is rank 1 of 2"));
}
