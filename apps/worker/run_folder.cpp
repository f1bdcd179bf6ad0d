#include "run_folder.h"

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "config/load.h"
#include "events/sinks.h"
#include "events/truncate.h"

namespace ampctl::worker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr const char* kSummaryFile = "summary.csv";
constexpr const char* kLogFile = "train.log";
constexpr const char* kConfigFile = "config.yaml";

// What a resumed run finds in its folder must be its own past. Going on from an older checkpoint gives up
// what came after it; a checkpoint from elsewhere belongs into a folder without a run.
void discard_future(const RunFolder& folder, const fs::path& from, int64_t step, events::EventBus& bus) {
  if (!fs::equivalent(from.parent_path(), folder.checkpoints)) {
    if (checkpoint::list(folder.checkpoints).empty()) return;
    throw usage_error(folder.root.string() + ": expected a folder without a run to continue " +
                      from.string() + " in, found checkpoints of a run; choose another `output`");
  }
  const auto discarded = checkpoint::discard_newer(folder.checkpoints, step);
  if (discarded.empty()) return;
  bus.emit(events::Message{events::Message::Level::warning,
                           "going on from step " + std::to_string(step) + ": removed " +
                               std::to_string(discarded.size()) + " later checkpoints, up to step " +
                               std::to_string(discarded.back())});
}

}  // namespace

RunFolder run_folder(const config::ExperimentConfig& config) {
  return {config.output, fs::path(config.output) / "checkpoints"};
}

std::optional<fs::path> checkpoint_to_resume(const RunFolder& folder, const std::string& resume,
                                             events::EventBus& bus) {
  if (resume == "never") {
    if (fs::exists(folder.root / kMetricsFile) || !checkpoint::list(folder.checkpoints).empty()) {
      throw usage_error(folder.root.string() +
                        ": expected a new folder (checkpoint.resume is never), found a run in it; "
                        "choose another `output`, remove the folder, or use --resume auto to go on");
    }
    return std::nullopt;
  }
  return checkpoint::find(folder.checkpoints, resume, [&bus](const std::string& text) {
    bus.emit(events::Message{events::Message::Level::warning, text});
  });
}

void rewind(const RunFolder& folder, const fs::path& from, const std::string& resume,
            const train::Progress& progress, events::EventBus& bus) {
  // `auto` and `latest` pass over damaged checkpoints only; those stay until the run saves their step again.
  if (!from.empty() && resume != "auto" && resume != "latest")
    discard_future(folder, from, progress.windows, bus);
  for (const char* name : {kMetricsFile, kSummaryFile})
    events::truncate_after(folder.root / name, progress.windows, progress.last_evaluated == progress.windows);
}

void open_run_files(const RunFolder& folder, const config::ExperimentConfig& resolved,
                    events::EventBus& bus) {
  write_text_file(folder.root / kConfigFile, config::to_yaml(resolved));
  bus.add(kMetricsFile, events::make_jsonl(folder.root / kMetricsFile));
  bus.add(kSummaryFile, events::make_csv(folder.root / kSummaryFile));
  bus.add(kLogFile, events::make_log(folder.root / kLogFile, events::parse_level(resolved.log.level)));
}

}  // namespace ampctl::worker
