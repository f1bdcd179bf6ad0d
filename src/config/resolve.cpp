#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "config/batch.h"
#include "config/input_size.h"
#include "config/plan_model.h"
#include "config/run_plan.h"
#include "config/scalars.h"

namespace ampctl::config {
namespace {

constexpr int64_t kTop5 = 5;
constexpr int64_t kMaxSteps = 100'000'000;  // the learning rates of all of them stand in one table

class Resolver {
 public:
  Resolver(const ExperimentConfig& config, const DatasetFacts& train, const std::optional<DatasetFacts>& eval,
           const WorldFacts& world)
      : train_(train), eval_(eval), world_(world) {
    plan_.config = config;
  }

  RunPlan run() {
    resolve_world();
    resolve_precision();
    resolve_data();
    resolve_batches();
    if (problems_.empty()) {
      resolve_length();
      resolve_schedule();
      resolve_cadence();
      write_back();
    }
    throw_if_any();
    return std::move(plan_);
  }

 private:
  void refuse(const std::string& message) { problems_.push_back(message); }

  void throw_if_any() const {
    if (problems_.empty()) return;
    std::string text;
    if (problems_.size() > 1) text = std::to_string(problems_.size()) + " problems in the configuration:\n";
    for (size_t i = 0; i < problems_.size(); ++i) text += (i > 0 ? "\n" : "") + problems_[i];
    throw usage_error(text);
  }

  void resolve_world() {
    const auto& asked = plan_.config.distributed.world_size;
    plan_.world_size = world_.hypothetical ? world_.world_size : asked.value_or(world_.world_size);
    const bool contradicts = asked.has_value() && *asked != world_.world_size;
    if (!world_.hypothetical && contradicts) {
      refuse("distributed.world_size: expected " + std::to_string(world_.world_size) +
             ", as many processes as were started, or auto; found " + std::to_string(*asked));
    }
    resolve_strategy();
    plan_.device = world_.device;
    const std::string& device = plan_.config.device;
    if (device != "auto" && device != world_.device) {
      throw environment_error("device: expected a " + device + " device, found only " + world_.device +
                              "; write device: auto to take what is there");
    }
    if (plan_.device == "cpu" && plan_.config.distributed.backend == "nccl") {
      refuse("distributed.backend: expected gloo or auto on CPUs, found nccl");
    }
  }

  void resolve_strategy() {
    const DistributedConfig& distributed = plan_.config.distributed;
    if (distributed.strategy != "data_parallel") return;
    if (plan_.world_size > 1) {
      refuse("distributed.strategy: expected ddp with " + std::to_string(plan_.world_size) +
             " processes, found data_parallel, which is one process for all GPUs of a host; write " +
             "distributed.world_size: 1, or strategy: ddp");
    }
    if (distributed.sync_batch_norm) {
      refuse("distributed.sync_batch_norm: expected false with strategy data_parallel, found true; use ddp");
    }
  }

  void resolve_precision() {
    const AmpConfig& amp = plan_.config.amp;
    if (!amp.enabled || amp.dtype == "float32") {
      plan_.precision = Precision::float32;
    } else if (amp.dtype == "tf32") {
      plan_.precision = Precision::tf32;
    } else if (amp.dtype == "float16") {
      plan_.precision = Precision::float16;
    } else {
      plan_.precision = Precision::bfloat16;
    }
    const bool autocast = plan_.precision == Precision::float16 || plan_.precision == Precision::bfloat16;
    const bool is_auto = amp.scaler.enabled == "auto";
    plan_.scaler_enabled = is_auto ? plan_.precision == Precision::float16 : amp.scaler.enabled == "true";
    if (plan_.scaler_enabled && !autocast) {
      refuse(
          "amp.scaler.enabled: expected false or auto, since float32 gradients need no scaling; found true");
    }
    plan_.allow_tf32 =
        amp.allow_tf32 == "auto" ? plan_.precision != Precision::float32 : amp.allow_tf32 == "true";
  }

  void resolve_data() {
    DataConfig& data = plan_.config.data;
    plan_.train_samples = train_.num_samples;
    plan_.eval_samples = eval_ ? eval_->num_samples : 0;
    plan_.channels = train_.channels;
    const InputSize input = input_size(train_, data.train.transforms, "data.train.transforms", problems_);
    plan_.input_height = input.height;
    plan_.input_width = input.width;
    plan_.num_classes = plan_.config.model.num_classes.value_or(train_.num_classes);
    if (plan_.num_classes < train_.num_classes) {
      refuse("model.num_classes: expected at least the data's " + std::to_string(train_.num_classes) +
             ", found " + std::to_string(plan_.num_classes));
    }
    if (eval_) resolve_evaluation(input);
    if (problems_.empty()) check_model();
  }

  void resolve_evaluation(const InputSize& train_input) {
    DataConfig& data = plan_.config.data;
    // A split source without transforms of its own for evaluation has deterministic ones for training.
    if (!data.eval) {
      data.eval.emplace();
      data.eval->transforms = data.train.transforms;
    }
    const size_t problems_before = problems_.size();
    const InputSize input = input_size(*eval_, data.eval->transforms, "data.eval.transforms", problems_);
    if (eval_->channels != train_.channels) {
      refuse("data.eval: expected images of " + std::to_string(train_.channels) +
             " channels as in data.train, found " + std::to_string(eval_->channels));
    }
    if (eval_->num_classes > plan_.num_classes) {
      refuse("data.eval: expected at most " + std::to_string(plan_.num_classes) +
             " classes as in data.train, found " + std::to_string(eval_->num_classes));
    }
    if (plan_.config.eval.best_metric == "eval/top5" && plan_.num_classes <= kTop5) {
      refuse("eval.best_metric: expected eval/top1 or eval/loss with " + std::to_string(plan_.num_classes) +
             " classes, where the best five are always right; found eval/top5");
    }
    const catalog::ModelInfo* info = catalog::find_model(plan_.config.model.name);
    const bool differs = input.height != train_input.height || input.width != train_input.width;
    if (problems_.size() == problems_before && train_input.height > 0 && info != nullptr &&
        info->fixed_input && differs) {
      refuse("data.eval.transforms: expected images of " + size_text(train_input) +
             " as in training, since " + info->name + " takes one size; found " + size_text(input));
    }
  }

  static std::string size_text(const InputSize& size) {
    return std::to_string(size.height) + "x" + std::to_string(size.width);
  }

  void check_model() {
    try {
      plan_cost(plan_);
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  void resolve_batches() {
    const BatchPlan batch = resolve_batch(plan_.config, plan_.world_size, problems_);
    plan_.micro_batch = batch.micro;
    plan_.accumulation = batch.accumulation;
    plan_.global_batch = batch.global;
    plan_.eval_batch = plan_.config.eval.batch_size.value_or(batch.micro);
    if (batch.global > plan_.train_samples) {
      refuse("data.batch_size: expected a global batch of at most the " + format_count(plan_.train_samples) +
             " training samples, found " + std::to_string(batch.micro) + " x " +
             std::to_string(batch.accumulation) + " x " + std::to_string(plan_.world_size) + " = " +
             format_count(batch.global));
    }
  }

  void resolve_length() {
    const int64_t whole = plan_.train_samples / plan_.global_batch;
    const bool shorter_last = !plan_.config.data.drop_last && plan_.train_samples % plan_.global_batch != 0;
    plan_.steps_per_epoch = whole + (shorter_last ? 1 : 0);
    plan_.samples_per_epoch = plan_.config.data.drop_last ? whole * plan_.global_batch : plan_.train_samples;
    const TrainConfig& train = plan_.config.train;
    if (train.epochs.has_value() == train.steps.has_value()) {
      refuse(std::string("train.epochs: expected this or train.steps, found ") +
             (train.epochs ? "both" : "neither"));
      return;
    }
    plan_.total_windows = train.steps ? *train.steps : *train.epochs * plan_.steps_per_epoch;
    if (plan_.total_windows > kMaxSteps) {
      refuse("train." + std::string(train.steps ? "steps" : "epochs") + ": expected a run of at most " +
             format_count(kMaxSteps) + " steps, found " + format_count(plan_.total_windows));
    }
  }

  [[nodiscard]] int64_t in_steps(const std::optional<int64_t>& epochs,
                                 const std::optional<int64_t>& steps) const {
    if (steps) return *steps;
    return epochs ? *epochs * plan_.steps_per_epoch : 0;
  }

  void resolve_schedule() {
    const LrScheduleConfig& from = plan_.config.lr_schedule;
    LrPlan& lr = plan_.lr;
    lr.name = from.name;
    lr.base_lr = plan_.config.optimizer.lr * lr_factor(from.scale_lr);
    lr.warmup_start_factor = from.warmup_start_factor;
    lr.warmup_steps = from.warmup_steps.value_or(0);
    if (from.warmup_epochs) {
      lr.warmup_steps = std::llround(*from.warmup_epochs * static_cast<double>(plan_.steps_per_epoch));
    }
    lr.total_steps = plan_.total_windows;
    lr.steps_per_epoch = plan_.steps_per_epoch;
    lr.step_size = in_steps(from.step_size_epochs, from.step_size_steps);
    lr.milestones = from.milestones_steps;
    for (const int64_t epoch : from.milestones_epochs) lr.milestones.push_back(epoch * plan_.steps_per_epoch);
    lr.gamma = from.gamma;
    lr.power = from.power;
    lr.min_lr = from.min_lr;
    if (lr.warmup_steps > lr.total_steps) {
      refuse("lr_schedule.warmup_" + std::string(from.warmup_epochs ? "epochs" : "steps") +
             ": expected at most the run's " + format_count(lr.total_steps) + " steps, found " +
             format_count(lr.warmup_steps) + " steps");
    }
    const bool has_end = lr.name == "polynomial" || lr.name == "cosine";
    if (has_end && lr.min_lr > lr.base_lr) {
      refuse("lr_schedule.min_lr: expected at most the learning rate, " + format_number(lr.base_lr) +
             ", found " + format_number(lr.min_lr));
    }
  }

  // Goyal et al. 2017 (arXiv 1706.02677): linear; Krizhevsky 2014 (arXiv 1404.5997): square root.
  [[nodiscard]] double lr_factor(const ScaleLrConfig& scale) const {
    const double ratio = static_cast<double>(plan_.global_batch) / static_cast<double>(scale.base_batch_size);
    if (scale.rule == "linear") return ratio;
    return scale.rule == "sqrt" ? std::sqrt(ratio) : 1.0;
  }

  void resolve_cadence() {
    const EvalConfig& eval = plan_.config.eval;
    const CheckpointConfig& checkpoint = plan_.config.checkpoint;
    if (eval_) plan_.eval_every_windows = in_steps(eval.every_epochs.value_or(1), eval.every_steps);
    plan_.checkpoint_every_windows = in_steps(checkpoint.every_epochs.value_or(1), checkpoint.every_steps);
  }

  // Decided values take the place of what was left open, so that the configuration repeats this run.
  void write_back() {
    ExperimentConfig& config = plan_.config;
    config.device = plan_.device;
    config.model.num_classes = plan_.num_classes;
    config.data.batch_size = plan_.micro_batch;
    config.data.global_batch_size = plan_.global_batch;
    config.train.gradient_accumulation_steps = plan_.accumulation;
    config.distributed.world_size = plan_.world_size;
    config.amp.scaler.enabled = plan_.scaler_enabled ? "true" : "false";
    config.amp.allow_tf32 = plan_.allow_tf32 ? "true" : "false";
    if (eval_) config.eval.batch_size = plan_.eval_batch;
    if (eval_ && !config.eval.every_steps && !config.eval.every_epochs) config.eval.every_epochs = 1;
    if (!config.checkpoint.every_steps && !config.checkpoint.every_epochs) config.checkpoint.every_epochs = 1;
  }

  const DatasetFacts& train_;
  const std::optional<DatasetFacts>& eval_;
  const WorldFacts& world_;
  RunPlan plan_;
  std::vector<std::string> problems_;
};

}  // namespace

RunPlan resolve(const ExperimentConfig& config, const DatasetFacts& train,
                const std::optional<DatasetFacts>& eval, const WorldFacts& world) {
  return Resolver(config, train, eval, world).run();
}

}  // namespace ampctl::config
