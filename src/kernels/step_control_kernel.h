// The CUDA side of step_control_, free of LibTorch. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/scalar_pointer.h"

namespace ampctl::kernels {

struct StepControl {
  ScalarPointer found_inf;
  ScalarPointer norm;
  ScalarPointer loss_sum;
  ScalarPointer samples;  // null: as planned
  double planned_samples;
  const float* lr_table;
  int64_t lr_count;
  int64_t* steps_done;
  int64_t* windows;
  float* scale;             // null: gradients are not scaled
  int32_t* growth_tracker;  // null with scale
  double growth_factor;
  double backoff_factor;
  int64_t growth_interval;
  double max_norm;  // of clipping; infinite: none
  float* decisions;
  double* records;
};

cudaError_t launch_step_control(const StepControl& control, cudaStream_t stream);

}  // namespace ampctl::kernels
