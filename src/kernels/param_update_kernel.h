// The CUDA side of the parameter updates, free of LibTorch so that nvcc has little to read. C++17.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/launch_limits.h"

namespace ampctl::kernels {

enum class CopyType : uint8_t { none, float16, bfloat16 };

constexpr int kUpdateStates = 3;
constexpr int kUpdateTensors = 256;  // a launch
constexpr int kUpdateChunk = 8192;   // elements that one block updates; a multiple of the vectors' width

/// One parameter and what belongs to it: `numel` values each, in the same memory order.
struct UpdateTensor {
  float* param;
  const float* grad;
  float* states[kUpdateStates];  // null where the rule has fewer
  void* copy;                    // null: none
  int64_t numel;
  double weight_decay;
  int32_t first_block;  // of the launch; the tensor's chunks are those up to the next tensor's first
  CopyType copy_type;
};

struct UpdateTensors {
  UpdateTensor tensors[kUpdateTensors];
  int32_t count;
  int32_t blocks;
};

/// 0-dim tensors on the device; grad_scale and found_inf may be null.
struct UpdatePointers {
  const float* lr;
  const float* step;
  const float* grad_scale;
  const float* found_inf;
};

struct SgdConstants {
  double momentum;
  double dampening;
  bool nesterov;
};

struct AdamConstants {
  double beta1;
  double beta2;
  double eps;
  bool decoupled_weight_decay;
};

static_assert(sizeof(UpdateTensors) + sizeof(UpdatePointers) + sizeof(AdamConstants) <= kMaxKernelArguments,
              "the arguments of an update do not fit into a launch");

/// State: the momentum buffer, unless `momentum` is 0.
cudaError_t launch_sgd_update(const UpdateTensors& tensors, const SgdConstants& constants,
                              const UpdatePointers& pointers, cudaStream_t stream);

/// States: exp_avg, exp_avg_sq and, with `amsgrad`, max_exp_avg_sq.
cudaError_t launch_adam_update(const UpdateTensors& tensors, const AdamConstants& constants, bool amsgrad,
                               const UpdatePointers& pointers, cudaStream_t stream);

}  // namespace ampctl::kernels
