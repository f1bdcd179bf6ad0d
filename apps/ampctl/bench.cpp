#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <unistd.h>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/host_name.h"
#include "base/utc_time.h"
#include "base/version.h"
#include "bench_report.h"
#include "commands.h"
#include "job.h"
#include "launch/environment.h"
#include "launch/launcher.h"
#include "launch/worker_place.h"
#include "output.h"
#include "synthetic_data.h"

namespace ampctl::cli {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLongestResult = uint64_t{64} << 20;  // bytes
constexpr const char* kStandardOutput = "-";

/// For results and logs of the workers; removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (fs::temp_directory_path() / "ampctl-bench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw file_error("create folder", pattern, errno);
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<std::string> worker_command(const BenchOptions& options, const fs::path& result) {
  std::vector<std::string> command{"bench",
                                   "--warmup",
                                   std::to_string(options.warmup),
                                   "--steps",
                                   std::to_string(options.steps),
                                   "--blocks",
                                   std::to_string(options.blocks),
                                   "--result",
                                   result.string()};
  if (options.resident || options.synthetic) command.emplace_back("--resident");
  if (!options.profile) command.emplace_back("--no-profile");
  return command;
}

launch::LaunchJob job_for(const BenchOptions& options, const config::ExperimentConfig& config) {
  const launch::Variables variables = launch::process_variables();
  launch::LaunchJob job = make_job(config, launch::checked({}), variables);
  if (options.synthetic) {
    job = make_job(with_synthetic_data(config, job.world.world_size), launch::checked({}), variables);
  }
  job.quiet = true;
  return job;
}

Measured measure(const BenchOptions& options, const Variant& variant,
                 const config::ExperimentConfig& config) {
  Measured measured;
  measured.variant = variant;
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "result.json";
  launch::LaunchJob job = job_for(options, config);
  job.command = worker_command(options, file);
  job.log_dir = scratch.path() / "logs";
  measured.exit_code = launch::run_job(job);
  Json result;
  if (fs::exists(file)) result = Json::parse(read_text_file(file, kLongestResult));
  if (measured.exit_code == kExitDone && !result.is_null()) {
    measured.result = std::move(result);
  } else {
    if (measured.exit_code == kExitDone) measured.exit_code = kExitInternal;
    measured.error = result.contains("error") ? result.at("error").get<std::string>()
                                              : "its process gave no result (exit code " +
                                                    std::to_string(measured.exit_code) + "; see above)";
  }
  return measured;
}

Json document(const BenchOptions& options, const std::string& started, const std::vector<Measured>& all) {
  Json variants = Json::array();
  for (const auto& measured : all) variants.push_back(to_json(measured));
  return {{"ampctl", kVersion}, {"commit", kCommit},   {"command", options.arguments},
          {"started", started}, {"host", host_name()}, {"variants", variants}};
}

void require_no_launcher(const launch::Variables& variables) {
  const launch::WorkerPlace place = launch::worker_place(variables);
  if (place.launcher.empty()) return;
  throw usage_error("`ampctl bench` starts its processes itself, but " + place.launcher + " says " +
                    place.evidence + ": start it once, outside of that job, with distributed.world_size " +
                    "for the number of processes");
}

std::string text_for(const std::vector<Measured>& all, std::size_t kernels) {
  if (all.size() > 1) return comparison_text(all);
  // What failed has been said by the launcher already.
  return all.front().result.is_null() ? "" : detailed_text(all.front().result, kernels);
}

}  // namespace

int run_bench(const BenchOptions& options) {
  require_no_launcher(launch::process_variables());
  std::vector<Comparison> comparisons;
  for (const auto& text : options.compare) comparisons.push_back(parse_comparison(text));
  const std::vector<Variant> wanted = variants(comparisons);
  // All are read before the first is measured: a mistake in the last must not cost the time of the others.
  std::vector<config::ExperimentConfig> configs;
  for (const auto& variant : wanted) {
    ConfigSource source = options.config;
    for (const auto& setting : variant) source.overrides.push_back(setting.key + "=" + setting.value);
    configs.push_back(load(source));
  }

  const std::string started = utc_now();
  std::vector<Measured> all;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted.size() > 1) {
      std::cerr << "ampctl: " << i + 1 << " of " << wanted.size() << ": " << name_of(wanted[i]) << std::endl;
    }
    all.push_back(measure(options, wanted[i], configs[i]));
    if (all.back().exit_code == kExitPreempted) {
      std::cerr << "ampctl: stopped by a signal; nothing is reported" << std::endl;
      return kExitPreempted;
    }
  }
  const bool json_alone = options.json == kStandardOutput;
  if (!json_alone) print(text_for(all, static_cast<std::size_t>(options.kernels)));
  if (options.json) {
    const std::string text = document(options, started, all).dump(2) + "\n";
    if (json_alone) {
      print(text);
    } else {
      write_text_file(*options.json, text);
    }
  }
  for (const auto& measured : all) {
    if (measured.exit_code != kExitDone) return measured.exit_code;
  }
  return kExitDone;
}

}  // namespace ampctl::cli
