#include "samples.h"

#include <fstream>
#include <iterator>
#include <sstream>

namespace ampctl::test {

constexpr int64_t kStepsPerEpoch = 45;
constexpr int64_t kEpochs = 10;

events::RunStarted sample_run(int64_t start_step) {
  events::RunStarted run;
  run.plan_text = "plan: 450 steps\nlr: 0.1\n";
  run.device = "CPU, 2 threads";
  run.output = "runs/digits";
  run.total_steps = kStepsPerEpoch * kEpochs;
  run.steps_per_epoch = kStepsPerEpoch;
  run.start_step = start_step;
  return run;
}

events::StepEnd sample_step(int64_t step, double loss) {
  events::StepEnd end;
  end.epoch = (step - 1) / kStepsPerEpoch;
  end.step = step;
  end.loss = loss;
  end.lr = 0.1;
  end.grad_norm = 2.5;
  end.scale = 65536.0;
  end.skipped_steps = 2;
  end.samples_per_sec = 1234.0;
  end.data_wait = 0.003;
  end.step_seconds = 0.1;
  return end;
}

events::Evaluated sample_evaluation(int64_t step) {
  events::Evaluated evaluated;
  evaluated.epoch = (step - 1) / kStepsPerEpoch;
  evaluated.step = step;
  evaluated.loss = 0.312;
  evaluated.top1 = 91.234;
  evaluated.top5 = 99.1;
  evaluated.samples = 450;
  evaluated.seconds = 0.84;
  evaluated.best = true;
  return evaluated;
}

events::Overflow sample_overflow(int64_t step, double scale_before) {
  return {step, scale_before, scale_before / 2, {"conv1.weight", "fc.bias"}, 62};
}

std::string read_all(const std::filesystem::path& path) {
  std::ifstream input(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

std::vector<std::string> split_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> read_lines(const std::filesystem::path& path) { return split_lines(read_all(path)); }

}  // namespace ampctl::test
