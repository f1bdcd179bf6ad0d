// The folder of a run: what it holds already, where it goes on from, and the files written into it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "config/experiment_config.h"
#include "events/event_sink.h"
#include "train/progress.h"

namespace ampctl::worker {

struct RunFolder {
  std::filesystem::path root;
  std::filesystem::path checkpoints;
};

[[nodiscard]] RunFolder run_folder(const config::ExperimentConfig& config);

/// The checkpoint that `resume` (auto | never | latest | best | a path) means; nullopt: a new run. Damaged
/// ones that are passed over are reported on `bus`.
std::optional<std::filesystem::path> checkpoint_to_resume(const RunFolder& folder, const std::string& resume,
                                                          events::EventBus& bus);

/// Makes the folder's past end at `progress`, loaded from the checkpoint `from` ("": a new run): later
/// checkpoints are removed when the run goes on from an older one by name (`resume` neither auto nor latest),
/// later lines of metrics.jsonl and summary.csv always.
void rewind(const RunFolder& folder, const std::filesystem::path& from, const std::string& resume,
            const train::Progress& progress, events::EventBus& bus);

/// Writes config.yaml and adds the sinks of metrics.jsonl, summary.csv and train.log.
void open_run_files(const RunFolder& folder, const config::ExperimentConfig& resolved, events::EventBus& bus);

}  // namespace ampctl::worker
