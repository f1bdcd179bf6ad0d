#include "fixture.h"

#include <limits>

#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include "model/models.h"
#include "nn/layer_tree.h"

namespace ampctl::test {
namespace {

constexpr int64_t kRecorderRows = 64;
constexpr int64_t kConstantSteps = 1000;
constexpr double kWeightDecay = 0.01;

model::InputShape input_shape(const std::string& model) {
  return model == "mlp" ? model::InputShape{1, 4, 4} : model::InputShape{3, 32, 32};
}

}  // namespace

Setup::Setup(const SetupOptions& options) {
  at::manual_seed(options.seed);
  config::ModelConfig model_config;
  model_config.name = options.model;
  model_config.hidden_sizes = {8};
  model_config.dropout = options.dropout;
  model = model::make_model(model_config, input_shape(options.model), kClasses);
  nn::checkpoint_activations(*model, options.activation_checkpointing);
  model->to(options.device);
  if (options.in_float64) model->to(at::kDouble);
  if (options.channels_last) nn::to_channels_last(*model);
  buffers = std::make_unique<train::BufferArena>(*model);

  optim::ParamGroup group;
  group.weight_decay = kWeightDecay;
  for (const auto& item : model->named_parameters()) {
    group.names.push_back(item.key());
    group.params.push_back(item.value());
  }
  const auto count = static_cast<int64_t>(group.params.size());
  optimizer = options.optimizer == "sgd" ? optim::make_sgd({group}, {0.9, 0.0, false}, options.fused)
                                         : optim::make_adam({group}, {}, options.fused);
  const auto sixteen_bits = options.precision == "bfloat16" ? at::kBFloat16 : at::kHalf;
  if (options.working_weights) {
    working_weights = std::make_unique<nn::WorkingWeights>(*model, sixteen_bits);
    optimizer->set_working_copies(working_weights->copies());
  }
  amp::GradScalerOptions scaler_options;
  scaler_options.init_scale = options.init_scale;
  scaler_options.growth_interval = options.growth_interval;
  scaler_options.enabled = options.precision == "float16";
  scaler = std::make_unique<amp::GradScaler>(scaler_options);
  recorder = std::make_unique<amp::ScaleRecorder>(kRecorderRows, count, options.device);

  train::StepOptions step_options;
  step_options.autocast = options.precision != "float32";
  step_options.autocast_dtype = sixteen_bits;
  step_options.clip_grad_norm = options.clip_grad_norm;
  step_options.clip_grad_value = options.clip_grad_value;
  step_options.synced_micro_batch = options.synced_micro_batch;
  if (options.in_float64) step_options.image_dtype = at::kDouble;
  step_options.samples_vary = options.samples_vary;
  step_options.image_shape = {input_shape(options.model).channels, input_shape(options.model).height,
                              input_shape(options.model).width};
  step_options.task.label_smoothing = options.label_smoothing;
  const at::Tensor table = options.lr_table.empty() ? at::full({kConstantSteps}, options.lr, at::kFloat)
                                                    : at::tensor(options.lr_table);
  step = std::make_unique<train::TrainStep>(*model, *optimizer, *scaler, *recorder, *buffers,
                                            table.to(options.device), step_options);
}

std::vector<at::Tensor> Setup::parameters() const {
  std::vector<at::Tensor> values;
  for (const auto& parameter : model->parameters()) values.push_back(parameter.detach());
  return values;
}

std::vector<at::Tensor> Setup::state() const {
  std::vector<at::Tensor> values;
  for (const auto& parameter : model->parameters()) values.push_back(parameter.detach().clone());
  for (const auto& buffer : model->buffers()) values.push_back(buffer.clone());
  for (const auto& [name, tensor] : optimizer->named_state()) values.push_back(tensor.clone());
  return values;
}

data::Batch make_batch(const std::string& model, int64_t size) {
  const auto shape = input_shape(model);
  data::Batch batch;
  batch.images = at::randn({size, shape.channels, shape.height, shape.width});
  batch.targets = at::randint(kClasses, {size}, at::kLong);
  batch.size = size;
  batch.consumed = size;
  return batch;
}

data::Batch make_overflowing_batch(const std::string& model, int64_t size) {
  data::Batch batch = make_batch(model, size);
  batch.images.view({-1})[0] = std::numeric_limits<float>::infinity();
  return batch;
}

}  // namespace ampctl::test
