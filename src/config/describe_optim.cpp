#include "config/describe.h"

namespace ampctl::config {
namespace {

Rule for_optimizers(Rule rule, std::vector<std::string> names, const OptimizerConfig& c) {
  return std::move(rule).option_of(std::move(names), "name", c.name);
}

Rule for_schedules(Rule rule, std::vector<std::string> names, const LrScheduleConfig& c) {
  return std::move(rule).option_of(std::move(names), "name", c.name);
}

}  // namespace

void describe(Visitor& f, OptimizerConfig& c) {
  f("name", c.name, one_of({"sgd", "adam", "adamw"}), "torch.optim's algorithm.");
  f("lr", c.lr, at_least(0), "Learning rate before lr_schedule.scale_lr.");
  f("momentum", c.momentum, for_optimizers(at_least(0).below(1), {"sgd"}, c),
    "Momentum factor; 0 keeps no state.");
  f("dampening", c.dampening, for_optimizers(at_least(0).at_most(1), {"sgd"}, c),
    "Dampening of the momentum.");
  f("nesterov", c.nesterov, for_optimizers(any(), {"sgd"}, c),
    "Nesterov momentum; needs momentum and no dampening.");
  f("betas", c.betas, for_optimizers(at_least(0).below(1), {"adam", "adamw"}, c),
    "Decay of the running means of the gradient and of its square.");
  f("eps", c.eps, for_optimizers(above(0), {"adam", "adamw"}, c), "Added to the denominator.");
  f("amsgrad", c.amsgrad, for_optimizers(any(), {"adam", "adamw"}, c),
    "Divides by the largest second moment seen so far.");
  f("weight_decay", c.weight_decay, at_least(0), "L2 penalty (sgd, adam) or decoupled decay (adamw).");
  f("bias_weight_decay", c.bias_weight_decay, at_least(0).absent("weight_decay"), "Weight decay of biases.");
  f("norm_weight_decay", c.norm_weight_decay, at_least(0).absent("weight_decay"),
    "Weight decay of normalisation layers.");
  f("fused", c.fused, any(),
    "One kernel that never waits for the device; false is the reference implementation, which does.");
}

void describe(Visitor& f, ScaleLrConfig& c) {
  f("rule", c.rule, one_of({"none", "linear", "sqrt"}),
    "How lr grows with global batch / base_batch_size: not at all, in proportion, or with the square root.");
  f("base_batch_size", c.base_batch_size, at_least(1).at_most(1e9).unit("samples"),
    "Global batch that optimizer.lr was chosen for.");
}

void describe(Visitor& f, LrScheduleConfig& c) {
  f("name", c.name, one_of({"constant", "step", "multi_step", "exponential", "polynomial", "cosine"}),
    "Course of the learning rate over the optimizer steps that happened, after the warm-up.");
  f("warmup_epochs", c.warmup_epochs, at_least(0).at_most(1e6).unit("epochs").absent("no warm-up"),
    "Length of the linear warm-up; or warmup_steps.");
  f("warmup_steps", c.warmup_steps, at_least(0).at_most(1e8).unit("steps").absent("no warm-up"),
    "Length of the linear warm-up; or warmup_epochs.");
  f("warmup_start_factor", c.warmup_start_factor, at_least(0).at_most(1),
    "Where the warm-up begins, as a factor of lr.");
  f("step_size_epochs", c.step_size_epochs,
    for_schedules(at_least(1).at_most(1e6).unit("epochs").absent("step_size_steps"), {"step"}, c),
    "lr is multiplied by gamma after each so many epochs.");
  f("step_size_steps", c.step_size_steps,
    for_schedules(at_least(1).at_most(1e8).unit("steps").absent("step_size_epochs"), {"step"}, c),
    "lr is multiplied by gamma after each so many steps.");
  f("milestones_epochs", c.milestones_epochs,
    for_schedules(at_least(1).at_most(1e6).unit("epochs"), {"multi_step"}, c),
    "Rising; lr is multiplied by gamma at each; or milestones_steps.");
  f("milestones_steps", c.milestones_steps,
    for_schedules(at_least(1).at_most(1e8).unit("steps"), {"multi_step"}, c),
    "Rising; lr is multiplied by gamma at each; or milestones_epochs.");
  f("gamma", c.gamma, for_schedules(above(0), {"step", "multi_step", "exponential"}, c),
    "Factor of lr at a step or milestone; of exponential, per epoch.");
  f("power", c.power, for_schedules(above(0), {"polynomial"}, c), "Exponent of the polynomial; 1 is linear.");
  f("min_lr", c.min_lr, for_schedules(at_least(0), {"polynomial", "cosine"}, c),
    "Learning rate at the end of the run.");
  f.section("scale_lr", c.scale_lr, "How the learning rate grows with the global batch.");
}

}  // namespace ampctl::config
