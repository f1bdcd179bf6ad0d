// Storage that stops answering: a stop request still ends the run in time.
#include <algorithm>
#include <csignal>
#include <thread>

#include <sys/stat.h>

#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace ampctl::test {
namespace {

using namespace std::chrono_literals;

/// Images in files, in their order.
constexpr const char* kFolderExperiment = R"(seed: 3
device: cpu
model: {name: lenet}
data:
  batch_size: 8
  num_workers: 2
  shuffle: false
  train:
    format: image_folder
    path: @DATA@/train
    transforms:
      - random_resized_crop: 28
      - normalize: {mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
train: {epochs: 1, num_threads: 1}
optimizer: {lr: 0.01}
amp: {dtype: bfloat16}
log: {every_steps: 1}
)";

}  // namespace

TEST_CASE(
    "A stop request during a stalled read ends with 75, and the run goes on once the file can be read") {
  for (const std::string workers : {"0", "2"}) {
    DYNAMIC_SECTION(workers << " decoding threads") {
      const Workspace workspace(kFolderExperiment);
      Images images;
      images.count = 60;
      write_image_folder(workspace.data() / "train", images);
      const std::vector<std::string> overrides{"data.num_workers=" + workers};
      REQUIRE(workspace.train("whole", overrides).exit_code == 0);

      // Files are in the order of their names; a FIFO without a writer never answers.
      std::vector<fs::path> files;
      for (const auto& entry : fs::directory_iterator(workspace.data() / "train" / "2"))
        files.push_back(entry.path());
      const fs::path stalled = *std::max_element(files.begin(), files.end());
      const fs::path aside = workspace.root() / "aside.png";
      fs::rename(stalled, aside);
      REQUIRE(mkfifo(stalled.c_str(), 0600) == 0);

      const fs::path run = workspace.run_folder("stalled");
      auto process = workspace.start("stalled", overrides);
      REQUIRE(eventually([&] { return last_step(run) >= 6; }, kRunLimit));
      std::this_thread::sleep_for(500ms);
      CHECK_FALSE(process.wait(0ms).has_value());
      process.signal(SIGTERM);
      REQUIRE(process.wait(20s).value_or(-1) == kPreempted);

      fs::remove(stalled);
      fs::rename(aside, stalled);
      REQUIRE(workspace.train("stalled", overrides).exit_code == 0);
      CHECK(checkpoint_difference(latest(run), latest(workspace.run_folder("whole"))).empty());
    }
  }
}

TEST_CASE("A start-up that is stuck in a read is given up with 75 within 20 s of the request") {
  const Workspace workspace(kMlpExperiment);
  auto process = workspace.start(
      "run", {}, {"LD_PRELOAD=" AMPCTL_STALLED_OPEN_LIBRARY, "AMPCTL_STALLED_FILE=/data/labels"});
  CHECK_FALSE(process.wait(3s).has_value());
  process.signal(SIGTERM);
  CHECK(process.wait(20s).value_or(-1) == kPreempted);
  CHECK_THAT(process.output(), ContainsSubstring("run the same command again"));
  REQUIRE(workspace.train("run", {"train.epochs=1"}).exit_code == 0);
}

}  // namespace ampctl::test
