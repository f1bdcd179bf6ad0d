#include "events/event_lines.h"

#include <cmath>
#include <utility>

#include "base/format.h"
#include "events/closing_block.h"

namespace ampctl::events {
namespace {

constexpr int64_t kIndividualOverflows = 5;
constexpr int kLossDigits = 4;
constexpr const char* kGap = "  ";

void append(std::string& line, const std::string& part) {
  if (part.empty()) return;
  if (!line.empty()) line += kGap;
  line += part;
}

std::string step_line(const StepFields& f) {
  std::string line = f.epoch;
  append(line, f.percent.empty() ? f.steps : f.steps + " (" + f.percent + ")");
  for (const auto* part :
       {&f.loss, &f.speed, &f.data_wait, &f.lr, &f.scale, &f.skipped, &f.memory, &f.corrupt, &f.eta}) {
    append(line, *part);
  }
  return line;
}

std::string culprits(const Overflow& overflow) {
  std::string text;
  for (const auto& name : overflow.parameters) text += (text.empty() ? "" : ", ") + name;
  const auto more = overflow.parameter_count - static_cast<int64_t>(overflow.parameters.size());
  if (!text.empty() && more > 0) text += " and " + std::to_string(more) + " more";
  return text;
}

std::string scale_change(double before, double after) {
  // Without a scaler (float32, bfloat16) a skip leaves the scale at 1: there is nothing to tell.
  if (before == after) return {};
  return "; scale " + format_scale(before) + " -> " + format_scale(after);
}

}  // namespace

EventLines::EventLines(Message::Level level, MonotonicClock clock)
    : level_(level), tracker_(std::move(clock)) {}

std::vector<Line> EventLines::lines(const Event& event) {
  auto lines = std::visit([this](const auto& each) { return on(each); }, event);
  for (auto& line : lines) line.text = printable(line.text);
  return lines;
}

std::vector<Line> EventLines::on(const RunStarted& run) {
  run_ = run;
  tracker_.start(run);
  last_step_.reset();
  const bool countable = run.steps_per_epoch > 0 && run.start_step < run.total_steps;
  epoch_ = countable ? tracker_.epoch_text(run.start_step / run.steps_per_epoch) : "";
  last_told_step_ = run.start_step;
  checkpoint_exists_ = run.resumed_from.has_value();
  std::vector<Line> lines;
  std::string plan = run.plan_text;
  while (!plan.empty() && plan.back() == '\n') plan.pop_back();
  if (!plan.empty()) lines.push_back({Line::Kind::event, plan});
  if (run.resumed_from) {
    lines.push_back({Line::Kind::event, "resumed from " + *run.resumed_from + ": " +
                                            std::to_string(run.start_step) + " of " +
                                            std::to_string(run.total_steps) + " steps are done"});
  }
  lines.push_back({Line::Kind::event, "training on " + run.device + ", results in " + run.output});
  return lines;
}

std::vector<Line> EventLines::on(const StepEnd& step) {
  auto lines = counted_overflows();
  last_step_ = tracker_.track(step);
  epoch_ = last_step_->epoch;
  last_told_step_ = step.step;
  lines.push_back({Line::Kind::step, step_line(*last_step_)});
  return lines;
}

std::vector<Line> EventLines::on(const Overflow& overflow) {
  if (overflow_lines_ >= kIndividualOverflows) {
    if (counted_.steps++ == 0) counted_.first = overflow;
    counted_.scale_after = overflow.scale_after;
    return {};
  }
  ++overflow_lines_;
  last_told_step_ = overflow.step;
  const std::string names = culprits(overflow);
  return {{Line::Kind::event, "step " + std::to_string(overflow.step) + " skipped: gradients not finite" +
                                  (names.empty() ? "" : " in " + names) +
                                  scale_change(overflow.scale_before, overflow.scale_after)}};
}

std::vector<Line> EventLines::counted_overflows() {
  if (counted_.steps == 0) return {};
  const auto count = std::exchange(counted_, {});
  std::string text = std::to_string(count.steps) + (count.steps == 1 ? " step" : " steps") +
                     " skipped since step " + std::to_string(last_told_step_) +
                     scale_change(count.first.scale_before, count.scale_after);
  const std::string names = culprits(count.first);
  if (!names.empty()) text += " (first not finite: " + names + ")";
  return {{Line::Kind::event, text}};
}

std::vector<Line> EventLines::on(const Evaluated& evaluated) {
  std::string line = "eval";
  append(line, tracker_.epoch_text(evaluated.epoch));
  append(line, "step " + std::to_string(evaluated.step));
  append(line, "loss " + format_significant(evaluated.loss, kLossDigits));
  append(line, "top1 " + format_percent(evaluated.top1));
  append(line, "top5 " + format_percent(evaluated.top5));
  append(line, std::to_string(evaluated.samples) + " samples in " + format_duration(evaluated.seconds));
  if (evaluated.best) append(line, "best so far");
  return {{Line::Kind::event, line}};
}

std::vector<Line> EventLines::on(const Progress&) { return {}; }

std::vector<Line> EventLines::on(const CheckpointSaved& saved) {
  checkpoint_exists_ = true;
  return {{Line::Kind::event, "saved " + saved.path + " in " + format_duration(saved.seconds) +
                                  (saved.best ? "  best so far" : "")}};
}

std::vector<Line> EventLines::on(const Message& message) {
  if (message.level < level_) return {};
  switch (message.level) {
    case Message::Level::info:
      return {{Line::Kind::event, message.text}};
    case Message::Level::warning:
      return {{Line::Kind::warning, message.text}};
    case Message::Level::error:
      break;
  }
  return {{Line::Kind::error, message.text}};
}

std::vector<Line> EventLines::on(const RunEnded& ended) {
  auto lines = counted_overflows();
  lines.push_back({Line::Kind::closing, closing_block(run_, ended, checkpoint_exists_)});
  return lines;
}

}  // namespace ampctl::events
