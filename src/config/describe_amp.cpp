#include "config/describe.h"

namespace ampctl::config {

void describe(Visitor& f, AmpConfig& c) {
  f("enabled", c.enabled, any(), "false trains in float32 whatever dtype says, for debugging.");
  f("dtype", c.dtype,
    one_of({"float32", "tf32", "float16", "bfloat16"})
        .also("fp32", "float32")
        .also("float", "float32")
        .also("fp16", "float16")
        .also("half", "float16")
        .also("bf16", "bfloat16"),
    "Precision of the forward and backward pass; float32 and tf32 run without autocast.");
  f("cache_enabled", c.cache_enabled, any(),
    "Autocast keeps each weight's cast for the rest of the forward pass.");
  f("allow_tf32", c.allow_tf32, auto_or_bool(),
    "TF32 for matrix products and convolutions that stay in float32; auto is off only for dtype float32.");
  f("fp32_modules", c.fp32_modules, any(),
    "Name patterns (shell globs) of modules that run in float32 with autocast off.");
  f.section("scaler", c.scaler, "The gradient scaler, with PyTorch's names and rules.");
}

void describe(Visitor& f, ScalerConfig& c) {
  f("enabled", c.enabled, auto_or_bool(), "auto is on for float16 only.");
  f("init_scale", c.init_scale, above(0), "Scale of the first step.");
  f("growth_factor", c.growth_factor, above(1),
    "Factor of the scale after growth_interval steps without overflow.");
  f("backoff_factor", c.backoff_factor, above(0).below(1), "Factor of the scale after an overflow.");
  f("growth_interval", c.growth_interval, at_least(1).unit("steps"),
    "Steps without overflow in a row after which the scale grows.");
  f("min_scale", c.min_scale, at_least(0),
    "A scale below this ends the run as diverged (exit 4); 0 means no floor.");
  f("max_consecutive_skips", c.max_consecutive_skips, at_least(0).unit("steps"),
    "So many skipped steps in a row end the run as diverged (exit 4), in every precision; 0 means no limit.");
}

}  // namespace ampctl::config
