// Functions over a whole tree of layers; names are dotted, as in PyTorch ("layer1.0.bn1").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/layer.h"
#include "nn/sync_batch_norm.h"

namespace ampctl::nn {

/// Marks every layer below `root` whose dotted name matches one of the shell globs (fnmatch; `*` crosses
/// dots). A matching container takes everything inside it along. Throws a usage error for a pattern that
/// matches nothing, naming the nearest layer.
void force_float32_modules(Layer& root, const std::vector<std::string>& patterns);

/// Layer::set_fused of `root` and every layer below it.
void set_fused(Layer& root, bool value);
/// train.activation_checkpointing: marks layers in the same way, with the same patterns and errors, to keep
/// nothing but their input for the backward pass. Of marked layers inside each other the outermost counts.
/// Worth it for containers ("layer?.?" marks ResNet's residual blocks): a single layer's input is often what
/// it kept anyway.
void checkpoint_activations(Layer& root, const std::vector<std::string>& patterns);

/// True where `root` or a layer inside it draws random numbers in training.
bool draws_random_numbers_inside(const Layer& root);

/// Why a training step of this model cannot be captured as a CUDA graph, for people; nullopt: it can be.
std::optional<std::string> capture_obstacle(const Layer& root);

/// Dotted names of the parameters that belong to normalisation layers, in the order of named_parameters().
std::vector<std::string> norm_parameter_names(const Layer& root);

/// torch.nn.SyncBatchNorm.convert_sync_batchnorm: from now on every BatchNorm2d of the tree normalises by the
/// joint batch of all ranks. Layers, parameters and buffers stay the same objects with the same names. All
/// ranks must then run their training forward passes equally often; one with no samples left runs a batch of
/// shape (0, C, H, W). Returns the number of layers converted.
int64_t convert_sync_batch_norm(Layer& root, const SumOverRanks& sum_over_ranks);

/// Stores every 4-dimensional parameter and buffer in channels_last, in place, as Python's
/// module.to(memory_format=torch.channels_last). Values and shapes stay.
void to_channels_last(Layer& root);

}  // namespace ampctl::nn
