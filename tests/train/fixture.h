// A small training set-up of real parts, as the worker builds it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "amp/grad_scaler.h"
#include "amp/scale_recorder.h"
#include "data/batch.h"
#include "nn/layer.h"
#include "nn/working_weights.h"
#include "optim/optimizer.h"
#include "train/buffer_arena.h"
#include "train/train_step.h"

namespace ampctl::test {

struct SetupOptions {
  std::string model = "mlp";          ///< a name of model/models.h; 1x4x4 images (mlp) or 3x32x32 (resnet18)
  std::string precision = "float32";  ///< float32 | float16 | bfloat16
  std::string optimizer = "sgd";      ///< sgd | adamw
  double lr = 0.1;
  double init_scale = 65536.0;
  int64_t growth_interval = 2000;
  double label_smoothing = 0.0;
  double dropout = 0.0;          ///< mlp
  bool fused = true;             ///< the optimizer
  bool working_weights = false;  ///< 16-bit copies that the optimizer writes
  std::optional<double> clip_grad_norm;
  std::optional<double> clip_grad_value;
  std::vector<float> lr_table;  ///< empty: constant lr
  uint64_t seed = 0;
  bool samples_vary = false;
  bool channels_last = false;
  bool in_float64 = false;  ///< weights; images must be so too
  int64_t synced_micro_batch = 0;
  std::vector<std::string> activation_checkpointing;  ///< name patterns
  c10::Device device = c10::kCPU;
};

struct Setup {
  explicit Setup(const SetupOptions& options);

  std::vector<at::Tensor> parameters() const;
  /// Every tensor that training changes, cloned: parameters, buffers, optimizer state.
  std::vector<at::Tensor> state() const;
  std::vector<amp::StepRow> rows() const { return recorder->drain().rows(); }

  nn::LayerPtr model;
  std::unique_ptr<train::BufferArena> buffers;
  std::unique_ptr<nn::WorkingWeights> working_weights;  ///< null: none asked for
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<amp::GradScaler> scaler;
  std::unique_ptr<amp::ScaleRecorder> recorder;
  std::unique_ptr<train::TrainStep> step;
};

constexpr int64_t kClasses = 5;

/// Random images and targets for that model.
data::Batch make_batch(const std::string& model, int64_t size);

/// The same with one infinite pixel, so that gradients are not finite.
data::Batch make_overflowing_batch(const std::string& model, int64_t size);

}  // namespace ampctl::test
