#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>

#include "events/append_file.h"
#include "events/sinks.h"

namespace ampctl::events {
namespace {

using Json = nlohmann::ordered_json;  // writes NaN and infinity as null

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Json to_json(const StepEnd& step) {
  Json line{{"step", step.step},
            {"epoch", step.epoch},
            {"wall_time", unix_seconds()},
            {"train/loss", step.loss},
            {"lr", step.lr},
            {"amp/scale", step.scale},
            {"amp/skipped_steps", step.skipped_steps},
            {"grad/norm", step.grad_norm},
            {"throughput/samples_per_sec", step.samples_per_sec},
            {"time/data_wait", step.data_wait},
            {"time/step", step.step_seconds},
            {"memory/max_allocated_gib", step.max_allocated_gib},
            {"memory/max_reserved_gib", step.max_reserved_gib}};
  if (step.corrupt_samples > 0) line["data/corrupt_samples"] = step.corrupt_samples;
  return line;
}

Json to_json(const Evaluated& evaluated) {
  return Json{{"step", evaluated.step},
              {"epoch", evaluated.epoch},
              {"wall_time", unix_seconds()},
              {"eval/loss", evaluated.loss},
              {"eval/top1", evaluated.top1},
              {"eval/top5", evaluated.top5},
              {"eval/samples", evaluated.samples},
              {"time/eval", evaluated.seconds}};
}

class JsonlSink final : public EventSink {
 public:
  explicit JsonlSink(std::filesystem::path path) : file_(std::move(path)) {}

  void on_event(const Event& event) override {
    if (const auto* step = std::get_if<StepEnd>(&event)) file_.append(to_json(*step).dump() + "\n");
    if (const auto* evaluated = std::get_if<Evaluated>(&event)) {
      file_.append(to_json(*evaluated).dump() + "\n");
    }
  }

 private:
  AppendFile file_;
};

}  // namespace

std::unique_ptr<EventSink> make_jsonl(const std::filesystem::path& path) {
  return std::make_unique<JsonlSink>(path);
}

}  // namespace ampctl::events
