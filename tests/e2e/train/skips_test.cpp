// Steps whose gradients are not finite: reported, and without any effect but the scale's.
#include <algorithm>

#include "e2e/train/runs.h"
#include "support/catch.h"
#include "support/matchers.h"

namespace ampctl::test {
namespace {

constexpr const char* kMlp = "{name: mlp, hidden_sizes: [16]}";

// 255 becomes 1 / std = 66,667: more than float16's largest value, 65,504. The others stay small.
std::string experiment(const std::string& model = kMlp) {
  return "model: " + model + R"(
seed: 5
device: cpu
data:
  batch_size: 4
  num_workers: 1
  shuffle: false
  train:
    format: idx
    images: @DATA@/images
    labels: @DATA@/labels
    transforms:
      - normalize: {mean: [0], std: [1.5e-5]}
train: {epochs: 1, gradient_accumulation_steps: 2, num_threads: 1}
optimizer: {name: adamw, lr: 1e-3}
lr_schedule: {name: constant, warmup_steps: 6}
amp: {dtype: float16, scaler: {init_scale: 16}}
log: {every_steps: 1}
)";
}

constexpr int kWindow = 8;  // samples of a step
constexpr int kSteps = 10;

bool in_step(int index, int step) { return index / kWindow == step - 1; }

/// Dim images; the ones where `bright` holds have one pixel that overflows float16.
Images dim_images(const std::function<bool(int)>& bright) {
  Images images;
  images.count = kSteps * kWindow;
  images.change = [bright](int index, std::string& pixels) {
    for (char& pixel : pixels) pixel = static_cast<char>(static_cast<unsigned char>(pixel) % 4);
    if (bright(index)) pixels[0] = '\xff';
  };
  return images;
}

std::vector<double> column(const fs::path& run, const std::string& key) {
  std::vector<double> values;
  for (const auto& line : metrics_with(run, "train/loss")) values.push_back(line.at(key).get<double>());
  return values;
}

void check_same_weights(const fs::path& a, const fs::path& b) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    CHECK(read_file(latest(a) / file) == read_file(latest(b) / file));
}

}  // namespace

TEST_CASE("A run with skipped steps equals the run over the other steps' samples, schedule included") {
  // Without a scaler nothing else remembers the skips; with batch norm, the running statistics must not.
  std::vector<std::string> overrides{"amp.scaler.enabled=false"};
  const bool batch_norm = GENERATE(false, true);
  if (batch_norm) overrides.emplace_back("amp.fp32_modules=['layer[234]*']");
  const std::string model = batch_norm ? "{name: resnet18}" : kMlp;
  // One bright image spoils the whole window, also when it comes in its second micro-batch.
  const Workspace with(experiment(model),
                       dim_images([](int i) { return i == 2 * kWindow + 5 || in_step(i, 7); }));
  Images others = dim_images([](int) { return false; });
  others.keep = [](int i) { return !in_step(i, 3) && !in_step(i, 7); };
  const Workspace without(experiment(model), others);
  const auto result = with.train("run", overrides);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  REQUIRE(without.train("run", overrides).exit_code == 0);

  const fs::path run = with.run_folder("run");
  check_same_weights(run, without.run_folder("run"));
  auto rates = column(run, "lr");
  REQUIRE(rates.size() == kSteps);
  CHECK(rates[2] == rates[3]);
  CHECK(rates[6] == rates[7]);
  rates.erase(rates.begin() + 6);
  rates.erase(rates.begin() + 2);
  CHECK(rates == column(without.run_folder("run"), "lr"));
  CHECK(metrics_with(run, "train/loss").back().at("amp/skipped_steps") == 2);
  CHECK(state(latest(run)).at("progress").at("steps_done") == kSteps - 2);
}

TEST_CASE("A skip halves the scale and does nothing else; step and parameter are reported") {
  const Workspace with(experiment(), dim_images([](int i) { return in_step(i, 1); }));
  Images others = dim_images([](int) { return false; });
  others.keep = [](int i) { return !in_step(i, 1); };
  const Workspace without(experiment(), others);
  const auto result = with.train("run");
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  REQUIRE(without.train("run", {"amp.scaler.init_scale=8"}).exit_code == 0);
  check_same_weights(with.run_folder("run"), without.run_folder("run"));
  CHECK(state(latest(with.run_folder("run"))).at("scaler") ==
        state(latest(without.run_folder("run"))).at("scaler"));

  for (const std::string& text : {result.out, read_file(with.run_folder("run") / "train.log")}) {
    CHECK_THAT(text, ContainsSubstring("step 1 skipped: gradients not finite in "));
    CHECK_THAT(text, ContainsSubstring("scale 16 -> 8"));
    CHECK_THAT(text, ContainsSubstring(".weight"));
  }
  const auto scales = column(with.run_folder("run"), "amp/scale");
  CHECK(scales.at(0) == 16);
  CHECK(std::all_of(scales.begin() + 1, scales.end(), [](double scale) { return scale == 8; }));
  CHECK(metrics_with(with.run_folder("run"), "train/loss").at(0).at("train/loss").is_null());
}

}  // namespace ampctl::test
