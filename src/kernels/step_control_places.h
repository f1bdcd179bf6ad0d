// Where step_control_ writes what it decided, and its constant. C++17, free of LibTorch.
#pragma once

namespace ampctl::kernels {

// Of StepDecisions, in its order: float32 and float64 values.
enum StepDecision : int { kFoundInf, kGradScale, kLr, kStep, kDecisions };
enum StepRecord : int { kNorm, kLossSum, kScale, kGrowthTracker, kWindow, kRecords };

// torch.nn.utils.clip_grad_norm_ adds it, so that a norm of zero divides nothing by zero.
constexpr double kClipEpsilon = 1e-6;

}  // namespace ampctl::kernels
