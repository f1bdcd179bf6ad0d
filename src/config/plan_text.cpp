#include <spdlog/fmt/fmt.h>

#include "config/memory.h"
#include "config/plan_model.h"
#include "config/scalars.h"

namespace ampctl::config {
namespace {

std::string count(int64_t value) { return format_count(value); }

std::string plural(int64_t value, const std::string& one, const std::string& many) {
  return count(value) + " " + (value == 1 ? one : many);
}

std::string steps(int64_t value) { return plural(value, "step", "steps"); }

std::string bytes(int64_t value) {
  constexpr double kMiB = 1024.0 * 1024.0;
  constexpr double kMiBPerGiB = 1024.0;
  const double mib = static_cast<double>(value) / kMiB;
  return mib < kMiBPerGiB ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / kMiBPerGiB);
}

std::string model_text(const RunPlan& plan) {
  return fmt::format("{}: {} parameters, {} classes, input {}x{}x{}{}", plan.config.model.name,
                     count(plan_cost(plan).parameters), count(plan.num_classes), plan.channels,
                     plan.input_height, plan.input_width,
                     plan.config.model.channels_last ? ", channels_last" : "");
}

std::string precision_text(const RunPlan& plan) {
  const ScalerConfig& scaler = plan.config.amp.scaler;
  std::string text;
  switch (plan.precision) {
    case Precision::float32:
      text = "float32";
      break;
    case Precision::tf32:
      text = "tf32, no autocast";
      break;
    case Precision::float16:
      text = "float16 autocast";
      break;
    case Precision::bfloat16:
      text = "bfloat16 autocast";
      break;
  }
  if (plan.scaler_enabled) {
    text += fmt::format(", scaler on (from {}, x {} after {} without overflow, x {} at one)",
                        format_number(scaler.init_scale), format_number(scaler.growth_factor),
                        steps(scaler.growth_interval), format_number(scaler.backoff_factor));
  } else {
    text += ", scaler off";
  }
  if (plan.device == "cuda" && plan.precision != Precision::tf32)
    text += plan.allow_tf32 ? ", TF32 on" : ", TF32 off";
  return text;
}

std::string batch_text(const RunPlan& plan) {
  return fmt::format("micro-batch {} x accumulation {} x {} = global batch {}", count(plan.micro_batch),
                     count(plan.accumulation), plural(plan.world_size, "process", "processes"),
                     count(plan.global_batch));
}

std::string data_text(const RunPlan& plan) {
  const std::string eval = plan.eval_samples > 0
                               ? plural(plan.eval_samples, "evaluation sample", "evaluation samples")
                               : "no evaluation";
  return plural(plan.train_samples, "training sample", "training samples") + ", " + eval;
}

// Samples trained on in the whole run; the last epoch may end early.
int64_t total_samples(const RunPlan& plan) {
  const int64_t epochs = plan.total_windows / plan.steps_per_epoch;
  const int64_t rest = plan.total_windows % plan.steps_per_epoch;
  return epochs * plan.samples_per_epoch + rest * plan.global_batch;
}

std::string steps_text(const RunPlan& plan) {
  std::string text = steps(plan.steps_per_epoch) + " an epoch";
  const int64_t rest = plan.samples_per_epoch % plan.global_batch;
  if (rest > 0) text += fmt::format(" (the last of {})", plural(rest, "sample", "samples"));
  const int64_t dropped = plan.train_samples - plan.samples_per_epoch;
  if (dropped > 0) text += fmt::format(" ({} dropped)", plural(dropped, "sample", "samples"));
  const double epochs = static_cast<double>(plan.total_windows) / static_cast<double>(plan.steps_per_epoch);
  return text + fmt::format(" x {:.6g} epochs = {}, {} samples", epochs, steps(plan.total_windows),
                            count(total_samples(plan)));
}

std::string optimizer_text(const RunPlan& plan) {
  const OptimizerConfig& optimizer = plan.config.optimizer;
  const ScaleLrConfig& scale = plan.config.lr_schedule.scale_lr;
  std::string lr = format_number(optimizer.lr);
  if (scale.rule != "none") {
    lr += fmt::format(" x {}({} / {}) = {:.6g}", scale.rule == "sqrt" ? "sqrt" : "", plan.global_batch,
                      scale.base_batch_size, plan.lr.base_lr);
  }
  const std::string moments =
      optimizer.name == "sgd"
          ? "momentum " + format_number(optimizer.momentum) + (optimizer.nesterov ? " (nesterov)" : "")
          : "betas " + format_number(optimizer.betas[0]) + ", " + format_number(optimizer.betas[1]);
  return fmt::format("{}, lr {}, {}, weight_decay {}", optimizer.name, lr, moments,
                     format_number(optimizer.weight_decay));
}

std::string course_text(const LrPlan& lr) {
  if (lr.name == "step")
    return fmt::format("x {} after each {}", format_number(lr.gamma), steps(lr.step_size));
  if (lr.name == "multi_step") {
    std::string list;
    for (const int64_t milestone : lr.milestones) list += (list.empty() ? "" : ", ") + count(milestone);
    return fmt::format("x {} at steps {}", format_number(lr.gamma), list);
  }
  if (lr.name == "exponential") return fmt::format("x {} an epoch", format_number(lr.gamma));
  if (lr.name == "constant") return "the same rate throughout";
  const std::string power = lr.name == "polynomial" ? " with power " + format_number(lr.power) : "";
  return fmt::format("down to {}{} at step {}", format_number(lr.min_lr), power, count(lr.total_steps));
}

std::string schedule_text(const RunPlan& plan) {
  std::string text = plan.lr.name + ": " + course_text(plan.lr);
  if (plan.lr.warmup_steps > 0) {
    text += fmt::format(", after {} of warm-up from x {}", steps(plan.lr.warmup_steps),
                        format_number(plan.lr.warmup_start_factor));
  }
  return text;
}

std::string cadence(int64_t every, int64_t total) {
  return every > 0 && every < total ? "every " + steps(every) + " and at the end" : "at the end";
}

std::string evaluation_text(const RunPlan& plan) {
  if (plan.eval_samples == 0) return "none";
  return fmt::format("{}, batch {}, best by {}", cadence(plan.eval_every_windows, plan.total_windows),
                     count(plan.eval_batch), plan.config.eval.best_metric);
}

std::string checkpoint_text(const RunPlan& plan) {
  const CheckpointConfig& checkpoint = plan.config.checkpoint;
  const bool best = checkpoint.keep_best && plan.eval_samples > 0;
  return fmt::format("{}, keeping the newest {}{}, in {}/checkpoints",
                     cadence(plan.checkpoint_every_windows, plan.total_windows), checkpoint.keep,
                     best ? " and the best" : "", plan.config.output);
}

std::string memory_text(const RunPlan& plan) {
  const MemoryEstimate memory = estimate_memory(plan);
  return fmt::format(
      "about {}: weights {}, gradients {}, optimizer {}, {}activations {}{} (workspaces left out)",
      bytes(memory.total()), bytes(memory.weights), bytes(memory.gradients), bytes(memory.optimizer),
      memory.casts > 0 ? "weight casts " + bytes(memory.casts) + ", " : "", bytes(memory.activations),
      plan.config.train.activation_checkpointing.empty() ? "" : " before checkpointing");
}

}  // namespace

std::string to_text(const RunPlan& plan) {
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  line("model", model_text(plan));
  line("device", plan.device);
  line("precision", precision_text(plan));
  line("batch", batch_text(plan));
  line("data", data_text(plan));
  line("steps", steps_text(plan));
  line("optimizer", optimizer_text(plan));
  line("schedule", schedule_text(plan));
  line("evaluation", evaluation_text(plan));
  line("checkpoints", checkpoint_text(plan));
  line("memory", memory_text(plan));
  return text;
}

}  // namespace ampctl::config
