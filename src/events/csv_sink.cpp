#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "base/format.h"
#include "events/append_file.h"
#include "events/sinks.h"
#include "events/step_tracker.h"

namespace ampctl::events {
namespace {

constexpr const char* kHeader =
    "epoch,step,train_loss,eval_loss,eval_top1,eval_top5,lr,scale,skipped_steps,samples_per_sec,seconds\r\n";

std::string number(double value) {
  constexpr int kDigits = 8;  // more than a float32 holds
  return format_general(value, kDigits);
}

class CsvSink final : public EventSink {
 public:
  explicit CsvSink(std::filesystem::path path) : file_(std::move(path)) {
    if (file_.empty()) file_.append(kHeader);
  }

  void on_event(const Event& event) override {
    if (const auto* run = std::get_if<RunStarted>(&event)) {
      last_step_ = run->start_step;
      row_start_ = monotonic_seconds();
    } else if (const auto* step = std::get_if<StepEnd>(&event)) {
      on(*step);
    } else if (const auto* evaluated = std::get_if<Evaluated>(&event)) {
      on(*evaluated);
    }
  }

 private:
  void on(const StepEnd& step) {
    const auto steps = static_cast<double>(std::max<int64_t>(1, step.step - last_step_));
    if (std::isfinite(step.loss)) {
      loss_sum_ += step.loss * steps;
      loss_steps_ += steps;
    }
    const double time = step.step_seconds * steps;
    samples_ += step.samples_per_sec * time;
    sample_seconds_ += time;
    last_step_ = step.step;
    latest_ = step;
    fresh_ = true;
    if (step.closes_epoch) write_row(step.epoch, step.step, ",,");
  }

  void on(const Evaluated& evaluated) {
    write_row(evaluated.epoch, evaluated.step,
              number(evaluated.loss) + "," + number(evaluated.top1) + "," + number(evaluated.top5));
  }

  void write_row(int64_t epoch, int64_t step, const std::string& evaluation) {
    const StepEnd latest = latest_.value_or(StepEnd{});
    const double now = monotonic_seconds();
    const std::string row = std::to_string(epoch) + "," + std::to_string(step) + "," +
                            (fresh_ ? number(loss_steps_ > 0 ? loss_sum_ / loss_steps_ : latest.loss) : "") +
                            "," + evaluation + "," + (latest_ ? number(latest.lr) : "") + "," +
                            (latest_ ? number(latest.scale) : "") + "," +
                            (latest_ ? std::to_string(latest.skipped_steps) : "") + "," +
                            (sample_seconds_ > 0 ? number(samples_ / sample_seconds_) : "") + "," +
                            number(now - row_start_) + "\r\n";
    row_start_ = now;
    loss_sum_ = loss_steps_ = samples_ = sample_seconds_ = 0.0;
    fresh_ = false;
    file_.append(row, kHeader);
  }

  AppendFile file_;
  std::optional<StepEnd> latest_;
  bool fresh_ = false;  // steps have been seen since the last row
  int64_t last_step_ = 0;
  double row_start_ = monotonic_seconds();
  double loss_sum_ = 0.0;  // of means, weighted by their steps
  double loss_steps_ = 0.0;
  double samples_ = 0.0;
  double sample_seconds_ = 0.0;
};

}  // namespace

std::unique_ptr<EventSink> make_csv(const std::filesystem::path& path) {
  return std::make_unique<CsvSink>(path);
}

}  // namespace ampctl::events
