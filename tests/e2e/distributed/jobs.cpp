#include "e2e/distributed/jobs.h"

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "support/catch.h"

namespace ampctl::test {
namespace {

constexpr const char* kTagVariable = "AMPCTL_TEST_JOB";

std::string new_tag(const Workspace& workspace, const std::string& name) {
  static std::atomic<int> count{0};
  return std::string(kTagVariable) + "=" + workspace.run_folder(name).string() + "#" +
         std::to_string(++count);
}

// The text of a file of /proc; "" when the process has gone meanwhile.
std::string proc_text(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const std::runtime_error&) {
    return "";
  }
}

bool has_entry(const std::string& environment, const std::string& entry) {
  const std::string framed = '\0' + environment;
  return framed.find('\0' + entry + '\0') != std::string::npos;
}

std::vector<float> weights(const fs::path& checkpoint) {
  const checkpoint::SafetensorsFile file(checkpoint / checkpoint::kModelFile);
  std::vector<float> values;
  for (const auto& [name, info] : file.tensors()) {
    if (info.dtype != "F32") throw std::runtime_error(name + " is " + info.dtype + ", expected F32");
    const size_t begin = values.size();
    values.resize(begin + info.bytes / sizeof(float));
    file.read(info, values.data() + begin);
  }
  return values;
}

}  // namespace

const char* const kJoinedMlp = R"(seed: 7
device: cpu
model: {name: mlp, hidden_sizes: [32]}
data:
  global_batch_size: 24
  num_workers: 1
  train:
    format: idx
    images: @DATA@/images
    labels: @DATA@/labels
    transforms:
      - random_crop: {size: 12, padding: 2}
      - horizontal_flip
      - normalize: {mean: [0.4], std: [0.3]}
  eval:
    format: idx
    images: @DATA@/images
    labels: @DATA@/labels
    transforms:
      - normalize: {mean: [0.4], std: [0.3]}
train: {steps: 50, gradient_accumulation_steps: 1, num_threads: 1}
optimizer: {name: sgd, lr: 0.02, momentum: 0.9, weight_decay: 0.001}
amp: {dtype: float32}
checkpoint: {every_steps: 1000}
log: {every_steps: 1}
)";

const char* const kJoinedLeNet = R"(seed: 7
device: cpu
model: {name: lenet}
data:
  global_batch_size: 24
  num_workers: 1
  train:
    format: idx
    images: @DATA@/images
    labels: @DATA@/labels
    transforms:
      - normalize: {mean: [0.4], std: [0.3]}
train: {steps: 50, gradient_accumulation_steps: 1, num_threads: 1}
optimizer: {name: sgd, lr: 0.02, momentum: 0.9}
amp: {dtype: float32}
checkpoint: {every_steps: 1000}
log: {every_steps: 1}
)";

Images images_of(int count, int size) {
  Images images;
  images.count = count;
  images.size = size;
  return images;
}

std::vector<std::string> ranks(std::vector<std::string> command, int count) {
  command.emplace_back("--nproc-per-node");
  command.push_back(std::to_string(count));
  return command;
}

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

double weights_distance(const fs::path& a, const fs::path& b) {
  const std::vector<float> left = weights(a);
  const std::vector<float> right = weights(b);
  if (left.size() != right.size() || left.empty()) throw std::runtime_error("the models differ in size");
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    const double distance = double{left[i]} - double{right[i]};
    difference += distance * distance;
    norm += double{right[i]} * double{right[i]};
  }
  return std::sqrt(difference / norm);
}

Job::Job(const Workspace& workspace, const std::string& name, const std::vector<std::string>& command,
         std::vector<std::string> env)
    : tag_(new_tag(workspace, name)),
      process_(command, workspace.root() / (tag_.substr(tag_.rfind('/') + 1) + ".out"),
               joined(std::move(env), {tag_})) {}

Job::~Job() {
  for (const pid_t pid : processes()) kill(pid, SIGKILL);
}

std::vector<pid_t> Job::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (has_entry(proc_text(entry.path() / "environ"), tag_)) found.push_back(std::stoi(name));
  }
  return found;
}

std::optional<pid_t> Job::worker(int64_t rank) const {
  for (const pid_t pid : processes()) {
    const fs::path proc = fs::path("/proc") / std::to_string(pid);
    if (proc_text(proc / "comm") != "ampctl-worker\n") continue;
    const std::string environment = proc_text(proc / "environ");
    for (const char* variable : {"RANK=", "SLURM_PROCID=", "OMPI_COMM_WORLD_RANK="}) {
      if (has_entry(environment, variable + std::to_string(rank))) return pid;
    }
  }
  return std::nullopt;
}

void Job::signal_worker(int64_t rank, int number) const {
  const auto pid = worker(rank);
  if (!pid) throw std::runtime_error("rank " + std::to_string(rank) + " does not run:\n" + output());
  kill(*pid, number);
}

bool Job::all_gone(std::chrono::milliseconds timeout) const {
  return eventually([this] { return processes().empty(); }, timeout);
}

std::string rank_logs(const fs::path& run, int64_t rank) {
  std::string text;
  if (!fs::exists(run / "logs")) return text;
  for (const auto& entry : fs::recursive_directory_iterator(run / "logs")) {
    if (entry.is_regular_file() && entry.path().parent_path().filename() == std::to_string(rank))
      text += read_file(entry.path());
  }
  return text;
}

void check_no_torn_checkpoint(const fs::path& run) {
  const fs::path folder = run / "checkpoints";
  for (const int64_t step : checkpoint::list(folder))
    CHECK_NOTHROW(checkpoint::verify(folder / checkpoint::folder_name(step)));
  if (fs::is_symlink(folder / "latest")) CHECK(fs::exists(folder / "latest"));
}

}  // namespace ampctl::test
