#include "config/check.h"

#include <algorithm>
#include <functional>

#include "config/scalars.h"

namespace ampctl::config {
namespace {

class Checker {
 public:
  Checker(ExperimentConfig& config, Origins& origins, Problems& problems)
      : c_(config), origins_(origins), problems_(problems) {}

  void run() {
    check_lengths();
    check_batch();
    check_schedule();
    if (c_.optimizer.name == "sgd") check_nesterov();
    check_precision();
    check_data();
    check_devices();
    check_evaluation();
  }

 private:
  void refuse(const std::string& key, const std::string& message) {
    const Origin place = origins_.nearest(key);
    problems_.add(place.order, place.where, key + ": " + message);
  }

  // The value is to be believed: given and accepted, or the default.
  [[nodiscard]] bool trusted(std::initializer_list<const char*> keys) const {
    return std::ranges::all_of(keys, [this](const char* key) { return origins_.trusted(key); });
  }

  // At most one of the two. True when both were given by the same source, which is told.
  bool exclusive(const std::string& a, const std::function<void()>& reset_a, const std::string& b,
                 const std::function<void()>& reset_b) {
    if (!origins_.has(a) || !origins_.has(b)) return false;
    const int order_a = origins_.find(a)->order;
    const int order_b = origins_.find(b)->order;
    if (order_a == order_b) {
      refuse(std::max(a, b), "expected this or " + std::min(a, b) + ", found both");
      return true;
    }
    const bool a_yields = order_a < order_b;
    (a_yields ? reset_a : reset_b)();
    origins_.forget(a_yields ? a : b);
    return false;
  }

  template <class T>
  bool exclusive(const std::string& section, const std::string& name, std::optional<T>& epochs,
                 std::optional<int64_t>& steps) {
    const std::string stem = section + "." + name;
    return exclusive(
        stem + "epochs", [&epochs] { epochs.reset(); }, stem + "steps", [&steps] { steps.reset(); });
  }

  void check_lengths() {
    if (exclusive("train", "", c_.train.epochs, c_.train.steps)) return;
    if (!origins_.has("train.epochs") && !origins_.has("train.steps") && trusted({"train"})) {
      refuse("train.epochs", "expected this or train.steps, found neither");
    }
  }

  void check_batch() {
    if (!origins_.has("data.batch_size") && !origins_.has("data.global_batch_size") && trusted({"data"})) {
      refuse("data.batch_size", "expected this or data.global_batch_size, found neither");
    }
  }

  void check_schedule() {
    LrScheduleConfig& s = c_.lr_schedule;
    exclusive("lr_schedule", "warmup_", s.warmup_epochs, s.warmup_steps);
    const bool both_sizes = exclusive("lr_schedule", "step_size_", s.step_size_epochs, s.step_size_steps);
    const bool both_milestones = exclusive(
        "lr_schedule.milestones_epochs", [&s] { s.milestones_epochs.clear(); },
        "lr_schedule.milestones_steps", [&s] { s.milestones_steps.clear(); });
    if (!trusted({"lr_schedule", "lr_schedule.name"})) return;
    if (s.name == "step" && !both_sizes && !origins_.has("lr_schedule.step_size_epochs") &&
        !origins_.has("lr_schedule.step_size_steps")) {
      refuse("lr_schedule.step_size_epochs",
             "expected this or lr_schedule.step_size_steps for a step schedule, found neither");
    }
    if (s.name != "multi_step") return;
    check_rising("lr_schedule.milestones_epochs", s.milestones_epochs);
    check_rising("lr_schedule.milestones_steps", s.milestones_steps);
    if (!both_milestones && s.milestones_epochs.empty() && s.milestones_steps.empty() &&
        trusted({"lr_schedule.milestones_epochs", "lr_schedule.milestones_steps"})) {
      refuse("lr_schedule.milestones_epochs",
             "expected this or lr_schedule.milestones_steps for a multi_step schedule, found neither");
    }
  }

  void check_rising(const std::string& key, const std::vector<int64_t>& milestones) {
    const auto wrong = std::ranges::adjacent_find(milestones, std::greater_equal<>());
    if (wrong == milestones.end()) return;
    refuse(key, "expected rising milestones, found " + std::to_string(*(wrong + 1)) + " after " +
                    std::to_string(*wrong));
  }

  void check_nesterov() {
    const OptimizerConfig& o = c_.optimizer;
    if (!o.nesterov || !trusted({"optimizer.momentum", "optimizer.dampening"})) return;
    if (o.momentum > 0 && o.dampening == 0) return;
    refuse("optimizer.nesterov", "expected momentum > 0 and dampening 0 with nesterov, found momentum " +
                                     format_number(o.momentum) + " and dampening " +
                                     format_number(o.dampening));
  }

  void check_precision() {
    const AmpConfig& a = c_.amp;
    if (!trusted({"amp.enabled", "amp.dtype", "amp.scaler.enabled", "amp.allow_tf32"})) return;
    const bool plain_float32 = !a.enabled || a.dtype == "float32" || a.dtype == "tf32";
    if (plain_float32 && a.scaler.enabled == "true") {
      refuse("amp.scaler.enabled", std::string("expected false or auto, since ") +
                                       (a.enabled ? "amp.dtype " + a.dtype : "amp.enabled: false") +
                                       " has no float16 gradients to scale; found true");
    }
    if (a.enabled && a.dtype == "tf32" && a.allow_tf32 == "false") {
      refuse("amp.allow_tf32", "expected true or auto with amp.dtype tf32, found false");
    }
    if (trusted({"amp.scaler.min_scale", "amp.scaler.init_scale"}) &&
        a.scaler.min_scale > a.scaler.init_scale) {
      refuse("amp.scaler.min_scale", "expected at most init_scale, " + format_number(a.scaler.init_scale) +
                                         ", found " + format_number(a.scaler.min_scale));
    }
  }

  void check_data() {
    const DataConfig& d = c_.data;
    check_source("data.train", d.train, false);
    if (d.eval) check_source("data.eval", *d.eval, d.split.eval_fraction.has_value());
    if (!d.split.eval_fraction || d.eval || !trusted({"data.eval", "data.train.transforms"})) return;
    for (const auto& transform : d.train.transforms) {
      const TransformKind* kind = find_transform(transform.name);
      if (kind == nullptr || !kind->random) continue;
      refuse("data.eval",
             "expected the transforms of the evaluation part (data.eval: {transforms: [...]}), since "
             "data.train.transforms has the random " +
                 transform.name + "; found none");
      return;
    }
  }

  void check_source(const std::string& key, const DatasetConfig& d, bool transforms_only) {
    check_transforms(key + ".transforms", d.transforms);
    if (transforms_only) {
      for (const auto* name : {"format", "path", "images", "labels"}) {
        const std::string field = key + "." + name;
        if (origins_.has(field)) {
          refuse(field,
                 "expected only transforms here, since data.split.eval_fraction takes the evaluation samples "
                 "from data.train");
        }
      }
      return;
    }
    if (!origins_.has(key + ".format")) {
      if (trusted({"data", key.c_str()})) refuse(key + ".format", "expected a value, found none");
      return;
    }
    if (d.format == "image_folder" && !d.path && origins_.trusted(key + ".path")) {
      refuse(key + ".path", "expected a folder with a folder of images a class, found none");
    }
    if (d.format != "idx" || !origins_.trusted(key + ".path")) return;
    const bool both = origins_.has(key + ".images") && origins_.has(key + ".labels");
    if (!both && !d.path)
      refuse(key + ".path", "expected a folder of IDX files, or both images and labels; found neither");
    if (both && d.path)
      refuse(key + ".path", "expected a folder or the files images and labels, found all three");
  }

  void check_transforms(const std::string& key, const std::vector<TransformConfig>& transforms) {
    for (size_t i = 0; i < transforms.size(); ++i) {
      const TransformConfig& t = transforms[i];
      const std::string at = key + "[" + std::to_string(i) + "]";
      for (const auto& [name, pair] : {std::pair{"scale", t.scale}, {"ratio", t.ratio}}) {
        if (pair[0] > pair[1]) {
          refuse(at + "." + name, "expected the smaller bound first, found [" + format_number(pair[0]) +
                                      ", " + format_number(pair[1]) + "]");
        }
      }
      if (t.name == "normalize" && i + 1 < transforms.size()) {
        refuse(at, "expected normalize as the last transform, found " + transforms[i + 1].name + " after it");
      }
      if (t.name != "normalize" || origins_.find(at + ".mean") == nullptr ||
          origins_.find(at + ".std") == nullptr)
        continue;
      if (!origins_.trusted(at + ".mean") || !origins_.trusted(at + ".std")) continue;
      if (t.mean.empty() || t.mean.size() != t.std.size()) {
        refuse(at + ".std", "expected as many numbers as in mean, at least one; found " +
                                std::to_string(t.std.size()) + " and " + std::to_string(t.mean.size()));
      }
    }
  }

  void check_devices() {
    if (c_.device == "cpu" && c_.distributed.backend == "nccl" && trusted({"device"})) {
      refuse("distributed.backend", "expected gloo or auto with device: cpu, found nccl");
    }
  }

  void check_evaluation() {
    exclusive("eval", "every_", c_.eval.every_epochs, c_.eval.every_steps);
    exclusive("checkpoint", "every_", c_.checkpoint.every_epochs, c_.checkpoint.every_steps);
    const bool evaluates =
        origins_.find("data.eval") != nullptr || origins_.find("data.split.eval_fraction") != nullptr;
    if (evaluates) return;
    for (const auto* key : {"eval.every_epochs", "eval.every_steps", "eval.batch_size"}) {
      if (origins_.has(key))
        refuse(key, "expected data.eval or data.split.eval_fraction to evaluate on, found neither");
    }
  }

  ExperimentConfig& c_;
  Origins& origins_;
  Problems& problems_;
};

}  // namespace

void check(ExperimentConfig& config, Origins& origins, Problems& problems) {
  Checker(config, origins, problems).run();
}

}  // namespace ampctl::config
