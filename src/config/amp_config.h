// The amp: section: precision and the gradient scaler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ampctl::config {

struct ScalerConfig {
  std::string enabled = "auto";  // auto | true | false; auto = on for float16
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  double min_scale = 1.0;               // below: diverged (exit 4); 0 = no floor
  int64_t max_consecutive_skips = 100;  // reached: diverged (exit 4); 0 = no limit

  bool operator==(const ScalerConfig&) const = default;
};

struct AmpConfig {
  bool enabled = true;
  std::string dtype = "float16";  // float32 | tf32 | float16 | bfloat16 (fp32, fp16, half, bf16)
  bool cache_enabled = true;      // autocast's cache of cast weights
  std::string allow_tf32 =
      "auto";  // auto | true | false: TF32 for what stays float32; auto = off only for float32
  std::vector<std::string> fp32_modules;  // name patterns (shell globs) run in float32 with autocast off
  ScalerConfig scaler;

  bool operator==(const AmpConfig&) const = default;
};

}  // namespace ampctl::config
