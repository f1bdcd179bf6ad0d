// Names the parts of a step for whoever profiles it.
#pragma once

#include <ATen/record_function.h>

namespace ampctl::train {

inline constexpr const char* kForwardPhase = "train::forward";
inline constexpr const char* kBackwardPhase = "train::backward";
inline constexpr const char* kOptimizerPhase = "train::optimizer";
inline constexpr const char* kCommunicationPhase = "train::communication";

/// What runs while it lives is that part, for PyTorch's profilers as a user's range; free while none looks.
class StepPhase {
 public:
  explicit StepPhase(const char* name) {
    if (range_.isActive()) range_.before(name);
  }

 private:
  at::RecordFunction range_{at::RecordScope::USER_SCOPE};
};

}  // namespace ampctl::train
