#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "e2e/programs.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;
namespace checkpoint = ampctl::checkpoint;
using ampctl::test::ContainsSubstring;
using Json = nlohmann::json;

namespace {

// A run as training leaves it: two checkpoints of a model with six parameters.
struct Run {
  TempDir dir;
  std::filesystem::path folder = dir.path() / "run";
  std::filesystem::path checkpoints = folder / "checkpoints";

  Run() {
    write_text(dir.path() / "small.yaml", small_experiment());
    write_text(folder / "config.yaml",
               run_ampctl({"config", "show", "-c", (dir.path() / "small.yaml").string()}).out);
    write_text(
        folder / "metrics.jsonl",
        R"({"step": 10, "epoch": 0, "train/loss": 1.5, "lr": 0.1, "amp/scale": 65536.0, "amp/skipped_steps": 1}
{"step": 11, "epoch": 0, "eval/loss": 0.9, "eval/top1": 80.0, "eval/top5": 99.0, "eval/samples": 20}
{"step": 20, "epoch": 1, "train/loss": 0.5, "lr": 0.1, "amp/scale": 32768.0, "amp/skipped_steps": 2}
{"step": 22, "epoch": 1, "eval/loss": 0.7, "eval/top1": 75.0, "eval/top5": 99.5, "eval/samples": 20}
{"step": 3)");
    const auto first = save(11);
    const auto second = save(22);
    checkpoint::point(checkpoints, "best", first);
    checkpoint::point(checkpoints, "latest", second);
  }

  [[nodiscard]] std::filesystem::path save(int64_t step) const {
    const std::vector<float> values{1, 2, 3, 4, 5, 6};
    checkpoint::FilePart model;
    model.name = checkpoint::kModelFile;
    model.tensors = {{"fc.weight", "F32", {2, 3}, values.data(), values.size() * sizeof(float)}};
    checkpoint::FilePart state;
    state.name = checkpoint::kStateFile;
    state.text = R"({"progress": {"windows": )" + std::to_string(step) +
                 R"(, "skipped_steps": 2}, "scaler": {"scale": 32768.0, "_growth_tracker": 7},
                    "class_names": ["a", "b"], "config": "seed: 42"})";
    return checkpoint::save(checkpoints, step, {model, state});
  }

  void damage(const std::string& name) const {
    const auto file = checkpoints / name / checkpoint::kModelFile;
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('!');
  }
};

Json inspect(const std::filesystem::path& path, int expected_code = 0) {
  const auto result = run_ampctl({"inspect", path.string(), "--json"});
  INFO(result.err);
  CHECK(result.exit_code == expected_code);
  return Json::parse(result.out);
}

}  // namespace

TEST_CASE("inspect shows a run: configuration, last metrics, best, checkpoints") {
  const Run run;
  const Json found = inspect(run.folder);
  CHECK(found.at("kind") == "run");
  CHECK(found.at("config").at("model") == "lenet");
  CHECK(found.at("last_step").at("step") == 20);
  CHECK(found.at("last_evaluation").at("step") == 22);
  CHECK(found.at("best") == Json{{"metric", "eval/top1"}, {"value", 80.0}, {"step", 11}});
  REQUIRE(found.at("checkpoints").size() == 2);
  CHECK(found.at("checkpoints")[0].at("best") == true);
  CHECK(found.at("checkpoints")[0].at("latest") == false);
  CHECK(found.at("checkpoints")[1].at("latest") == true);
  CHECK(found.at("checkpoints")[1].at("whole") == true);

  const auto text = run_ampctl({"inspect", run.folder.string()}).out;
  CHECK_THAT(
      text, ContainsSubstring("lenet") && ContainsSubstring("scale 32768") && ContainsSubstring("2 skipped"));
  CHECK_THAT(text, ContainsSubstring("eval/top1 80.00 at step 11") && ContainsSubstring("latest") &&
                       ContainsSubstring("whole"));
}

TEST_CASE("inspect finds damaged checkpoints of a run without giving up on the others") {
  const Run run;
  run.damage("step-00000022");
  const Json list = inspect(run.folder).at("checkpoints");
  CHECK(list[0].at("whole") == true);
  CHECK(list[1].at("whole") == false);
  CHECK_THAT(list[1].at("problem").get<std::string>(), ContainsSubstring("model.safetensors"));
  CHECK_THAT(run_ampctl({"inspect", run.folder.string()}).out, ContainsSubstring("DAMAGED"));
}

TEST_CASE("inspect shows a checkpoint: step, files, state and tensors; also through its links") {
  const Run run;
  for (const char* name : {"step-00000022", "latest"}) {
    const Json found = inspect(run.checkpoints / name);
    CHECK(found.at("kind") == "checkpoint");
    CHECK(found.at("step") == 22);
    CHECK(found.at("whole") == true);
    CHECK(found.at("problem").is_null());
    CHECK(found.at("files").size() == 2);
    CHECK(found.at("state").at("scaler").at("scale") == 32768.0);
    CHECK_FALSE(found.at("state").contains("config"));
    CHECK(found.at("tensors")[0].at("tensors")[0] ==
          Json{{"name", "fc.weight"}, {"dtype", "F32"}, {"shape", {2, 3}}, {"bytes", 24}});
  }
  const auto text = run_ampctl({"inspect", (run.checkpoints / "latest").string()}).out;
  CHECK_THAT(text, ContainsSubstring("whole") && ContainsSubstring("scale 32768") &&
                       ContainsSubstring("fc.weight  F32  [2, 3]"));
}

TEST_CASE("inspect of a damaged checkpoint says what is wrong and exits with 3") {
  const Run run;
  run.damage("step-00000022");
  const Json found = inspect(run.checkpoints / "step-00000022", 3);
  CHECK(found.at("whole") == false);
  CHECK_THAT(found.at("problem").get<std::string>(),
             ContainsSubstring("model.safetensors") && ContainsSubstring("CRC-32"));
  CHECK(found.at("state").at("progress").at("windows") == 22);

  std::filesystem::remove(run.checkpoints / "step-00000011" / checkpoint::kManifestFile);
  CHECK(inspect(run.checkpoints / "step-00000011", 3).at("whole") == false);
}

TEST_CASE("inspect shows a safetensors file") {
  const Run run;
  const auto file = run.checkpoints / "latest" / checkpoint::kModelFile;
  const Json found = inspect(file);
  CHECK(found.at("kind") == "tensors");
  CHECK(found.at("elements") == 6);
  CHECK_THAT(run_ampctl({"inspect", file.string()}).out, ContainsSubstring("1 tensors, 6 elements, 24 B"));
}

TEST_CASE("inspect refuses what it does not know, and hostile files, with a clear message") {
  const TempDir dir;
  CHECK(run_ampctl({"inspect", "/nowhere"}).exit_code == 2);
  CHECK(run_ampctl({"inspect", dir.path().string()}).exit_code == 2);
  write_text(dir.path() / "x.safetensors", std::string(8, '\xff') + "{}");
  const auto hostile = run_ampctl({"inspect", (dir.path() / "x.safetensors").string()});
  CHECK(hostile.exit_code == 3);
  CHECK_THAT(hostile.err, ContainsSubstring("x.safetensors"));
}
