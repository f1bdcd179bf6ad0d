// Small experiments with real files, and what their run folders hold.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/background_process.h"
#include "support/process.h"

namespace ampctl::test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// No run of these tests takes nearly so long, also on a busy machine.
constexpr std::chrono::minutes kRunLimit{4};
constexpr int kKilled = 137;    ///< a shell's code for SIGKILL
constexpr int kPreempted = 75;  ///< exit codes of README.md
constexpr int kDiverged = 4;
constexpr int kEnvironment = 3;
constexpr int kUsage = 2;

/// Gray images of `size` x `size`, three classes that differ in where the image is bright, in a seeded order.
struct Images {
  int count = 203;
  int size = 12;
  int classes = 3;
  unsigned seed = 1;
  /// Changes pixels (row-major, one byte each) of image `index` after they were drawn.
  std::function<void(int index, std::string& pixels)> change;
  /// Leaves images out.
  std::function<bool(int index)> keep;
};

/// Writes `<folder>/images` and `<folder>/labels` in IDX format.
void write_images(const fs::path& folder, const Images& images);

/// The same images as RGB files in PNG format, `<folder>/<label>/<index>.png`.
void write_image_folder(const fs::path& folder, const Images& images);

/// A folder with data, an experiment file and any number of runs.
class Workspace {
 public:
  /// `experiment`: the YAML, where @DATA@ stands for the data's folder.
  explicit Workspace(const std::string& experiment, const Images& images = {});
  ~Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  [[nodiscard]] fs::path run_folder(const std::string& name) const { return root() / name; }
  [[nodiscard]] const fs::path& root() const { return dir_.path(); }
  [[nodiscard]] fs::path data() const { return root() / "data"; }
  [[nodiscard]] fs::path config() const { return root() / "experiment.yaml"; }
  /// The command line that trains into run_folder(name), with overrides "key=value".
  [[nodiscard]] std::vector<std::string> command(const std::string& name,
                                                 const std::vector<std::string>& overrides = {}) const;
  /// Runs it to its end.
  [[nodiscard]] ProcessResult train(const std::string& name,
                                    const std::vector<std::string>& overrides = {}) const;
  /// Starts it; its output goes to `<name>.out`.
  [[nodiscard]] BackgroundProcess start(const std::string& name,
                                        const std::vector<std::string>& overrides = {},
                                        const std::vector<std::string>& env = {}) const;

 private:
  TempDir dir_;
};

/// An mlp with dropout over the images, augmentation on, a short last batch and a short last window.
extern const char* const kMlpExperiment;
/// ResNet-18 (batch norm) likewise, its wide layers in float32: the CPU's float16 convolutions are slow.
extern const char* const kResNetExperiment;

/// Lines of metrics.jsonl; a line that is no JSON throws.
std::vector<Json> metrics(const fs::path& run);
/// Those of steps ("train/loss") or of evaluations ("eval/top1").
std::vector<Json> metrics_with(const fs::path& run, const std::string& key);
/// The last step that metrics.jsonl tells of, also while it is being written; 0: none.
int64_t last_step(const fs::path& run);
/// Rows of summary.csv, the header first.
std::vector<std::vector<std::string>> summary(const fs::path& run);

std::string read_file(const fs::path& path);
/// The folder that checkpoints/latest points at.
fs::path latest(const fs::path& run);
/// state.json of a checkpoint.
Json state(const fs::path& checkpoint);

/// Model, optimizer and generator files of two checkpoints byte by byte; scaler and progress as values.
/// Returns what differs, "" when nothing does.
std::string checkpoint_difference(const fs::path& a, const fs::path& b);

}  // namespace ampctl::test
