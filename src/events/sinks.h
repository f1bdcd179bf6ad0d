// The sinks of a run, made by name. Each says what it writes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "events/event_sink.h"

namespace ampctl::events {

/// auto | bar | plain | none; anything else is a usage error.
enum class ProgressMode { automatic, bar, plain, none };
[[nodiscard]] ProgressMode parse_progress_mode(const std::string& name);

/// trace | debug | info | warn | error (spdlog's names); anything else is a usage error. Runs have no
/// messages below info, so the first three mean the same.
[[nodiscard]] Message::Level parse_level(const std::string& name);

struct ConsoleOptions {
  int fd = 1;  ///< standard output
  ProgressMode mode = ProgressMode::automatic;
  Message::Level level = Message::Level::info;  ///< messages below it are left out
};

/// What people watch. `bar`: one line redrawn in place, everything else scrolls above it; `plain`: a line an
/// event; `none`: warnings, errors and the closing block only; `automatic`: bar on a terminal, else plain.
/// Never waits for a slow, stopped or vanished reader: redraws are dropped, lines queue up to a bound. The
/// first write error is thrown once (to be reported by the EventBus); after it nothing more is written.
[[nodiscard]] std::unique_ptr<EventSink> make_console(const ConsoleOptions& options);

/// metrics.jsonl: a JSON object a line for each StepEnd and each Evaluated, written at once with one write.
/// Keys as in PyTorch-like drivers: step, epoch (from 0), wall_time (Unix seconds), train/loss, lr, … Values
/// that are not finite are null, which every JSON reader takes and pandas reads as NaN.
[[nodiscard]] std::unique_ptr<EventSink> make_jsonl(const std::filesystem::path& path);

/// summary.csv (RFC 4180): a row an evaluation, and one for an epoch that ended without any: epoch (from 0),
/// step, train_loss (mean since the last row), eval_loss, eval_top1, eval_top5 (empty without evaluation),
/// lr, scale, skipped_steps, samples_per_sec (training only, since the last row), seconds (since the last
/// row).
[[nodiscard]] std::unique_ptr<EventSink> make_csv(const std::filesystem::path& path);

/// train.log: the console's plain lines and messages, each with local time and level.
[[nodiscard]] std::unique_ptr<EventSink> make_log(const std::filesystem::path& path,
                                                  Message::Level level = Message::Level::info);

}  // namespace ampctl::events
