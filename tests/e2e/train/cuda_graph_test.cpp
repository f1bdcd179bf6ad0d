// Whole runs whose steps are replayed as CUDA graphs, against runs whose steps are not.
#include <csignal>

#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/skip.h"

namespace ampctl::test {
namespace {

constexpr int64_t kStopBehind = 20;  ///< steps: graphs of full windows are in use by then

bool has_gpu() { return !Json::parse(run({AMPCTL_PROGRAM, "env", "--json"}).out).at("gpus").empty(); }

struct Case {
  const char* experiment;
  const char* world_size;
};

std::vector<std::string> on_gpu(const Case& tested, const std::string& cuda_graph) {
  return {"device=cuda",
          "train.deterministic=true",
          "train.epochs=20",
          "checkpoint.every_steps=10",
          std::string("distributed.world_size=") + tested.world_size,
          "train.cuda_graph=" + cuda_graph};
}

TEST_CASE("A run with graphs writes the checkpoint of one without, also when stopped and resumed", "[gpu]") {
  if (!has_gpu()) return skip("there is no GPU");
  // auto: on all GPUs there are, with the all-reduces in the graph.
  const Case tested =
      GENERATE(Case{kMlpExperiment, "1"}, Case{kMlpExperiment, "auto"}, Case{kResNetExperiment, "1"});
  CAPTURE(tested.experiment, tested.world_size);
  const Workspace workspace(tested.experiment);
  REQUIRE(workspace.train("eager", on_gpu(tested, "false")).exit_code == 0);
  const auto expected = latest(workspace.run_folder("eager"));

  const auto graph = workspace.train("graph", on_gpu(tested, "true"));
  REQUIRE(graph.exit_code == 0);
  CHECK((graph.out + graph.err).find("eagerly") == std::string::npos);
  CHECK(checkpoint_difference(expected, latest(workspace.run_folder("graph"))).empty());

  auto stopped = workspace.start("stopped", on_gpu(tested, "true"));
  REQUIRE(eventually([&] { return last_step(workspace.run_folder("stopped")) > kStopBehind; }, kRunLimit));
  stopped.signal(SIGTERM);
  REQUIRE(stopped.wait(kRunLimit).value_or(-1) == kPreempted);
  REQUIRE(workspace.train("stopped", on_gpu(tested, "true")).exit_code == 0);
  CHECK(checkpoint_difference(expected, latest(workspace.run_folder("stopped"))).empty());
}

TEST_CASE("A run whose steps cannot be captured says why, once", "[gpu]") {
  if (!has_gpu()) return skip("there is no GPU");
  const Workspace workspace(kMlpExperiment);
  const auto result = workspace.train(
      "unfused", {"device=cuda", "distributed.world_size=1", "optimizer.fused=false", "train.epochs=1"});
  REQUIRE(result.exit_code == 0);
  const std::string said = result.out + result.err;
  const auto first =
      said.find("not as a CUDA graph, which train.cuda_graph allows: optimizer.fused is false");
  REQUIRE(first != std::string::npos);
  CHECK(said.find("CUDA graph", first + said.substr(first).find('\n')) == std::string::npos);
}

}  // namespace
}  // namespace ampctl::test
