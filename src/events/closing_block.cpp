#include "events/closing_block.h"

#include "base/format.h"

namespace ampctl::events {
namespace {

std::string row(const std::string& name, const std::string& value) {
  constexpr size_t kNameWidth = 11;
  return "\n  " + name + std::string(kNameWidth - name.size(), ' ') + value;
}

std::string of_total(int64_t step, int64_t total) {
  return std::to_string(step) + (total > 0 ? " of " + std::to_string(total) : "") + " steps";
}

std::string headline(const RunStarted& run, const RunEnded& ended) {
  switch (ended.outcome) {
    case RunEnded::Outcome::done:
      return "Done: " + of_total(ended.step, run.total_steps) + " in " + format_duration(ended.seconds);
    case RunEnded::Outcome::preempted:
      return "Stopped after " + of_total(ended.step, run.total_steps) + ", " +
             format_duration(ended.seconds) + " into this run: " + ended.message;
    case RunEnded::Outcome::failed:
      break;
  }
  return "Failed after " + of_total(ended.step, run.total_steps) + ", " + format_duration(ended.seconds) +
         " into this run: " + ended.message;
}

std::string accuracy(const RunEnded& ended) {
  std::string text;
  if (ended.best_top1) text += "best top1 " + format_percent(*ended.best_top1);
  if (ended.final_top1)
    text += (text.empty() ? "" : ", ") + ("final top1 " + format_percent(*ended.final_top1));
  return text;
}

std::string next_steps(const RunStarted& run, const RunEnded& ended, bool checkpoint_exists) {
  switch (ended.outcome) {
    case RunEnded::Outcome::done:
      return row("next", "ampctl eval " + run.output + " --checkpoint best") +
             row("", "ampctl inspect " + run.output);
    case RunEnded::Outcome::preempted:
      return row("next", "run the same command again: it continues from the last checkpoint");
    case RunEnded::Outcome::failed:
      break;
  }
  if (!checkpoint_exists) return {};
  return row("next", "ampctl inspect " + run.output) +
         row("", "after mending the cause, the same command continues from the last checkpoint");
}

}  // namespace

std::string closing_block(const RunStarted& run, const RunEnded& ended, bool checkpoint_exists) {
  std::string text = headline(run, ended);
  const std::string reached = accuracy(ended);
  if (!reached.empty()) text += row("accuracy", reached);
  if (ended.samples_per_sec > 0.0) text += row("speed", format_count(ended.samples_per_sec) + " samples/s");
  if (ended.max_allocated_gib > 0.0) {
    constexpr int kDigits = 3;
    text += row("memory", "peak " + format_significant(ended.max_allocated_gib, kDigits) + " GiB allocated");
  }
  text +=
      row("skipped", std::to_string(ended.skipped_steps) + " of " + std::to_string(ended.step) + " steps");
  if (!run.output.empty()) {
    text += row("results", run.output + " (metrics.jsonl, summary.csv, train.log" +
                               (checkpoint_exists ? ", checkpoints/)" : ")"));
    text += next_steps(run, ended, checkpoint_exists);
  }
  return text;
}

}  // namespace ampctl::events
