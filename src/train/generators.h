// The random number generators that a rank's step draws from: seeds, and states for checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "dist/world.h"
#include "train/named_tensors.h"

namespace ampctl::train {

/// Seeds the default generators of the CPU and of `device` from (seed, rank, step), so that ranks draw
/// different dropout masks from one seed.
void seed_rank(int64_t seed, int64_t rank, int64_t step, c10::Device device);

/// Every rank's states by rank, "generator.cpu" and, on a GPU, "generator.cuda": uint8 tensors on the host.
/// Collective.
std::vector<NamedTensors> gather_generators(c10::Device device, const dist::World& world);

/// Sets this rank's generators from a file of a checkpoint. Throws an environment error for one that was
/// written on another kind of device.
void restore_generators(const std::filesystem::path& file, c10::Device device);

}  // namespace ampctl::train
