// Proof that ranks agree: on what they are about to run, and on the state they have reached.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dist/named_tensors.h"
#include "dist/world.h"

namespace ampctl::dist {

/// Names and values of things that must be the same everywhere.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Collective. Throws usage on every rank when facts differ, with one line a differing fact: its name, each
/// value found, and the ranks that have it. `what` begins the message ("the configuration").
/// Costs one small gather when all are equal.
void require_equal(const World& world, const Facts& facts, const std::string& what);

/// Collective. Compares the step, the scaler's state and every tensor bit by bit, by checksums worked out on
/// the device (one wait for it) and two small gathers. Throws internal on every rank, naming what differs
/// and the ranks in the minority. Names and shapes must be the same on all ranks.
void require_no_drift(const World& world, int64_t step, double scale, int64_t skipped,
                      const NamedTensors& tensors);

/// An int64 tensor [number of tensors], on `device`: a checksum of each one's bits and their positions
/// (Σ bits_i · weight_i mod 2^64 with odd weights, so that no change of a single element is lost). Elements
/// are taken in memory order, which ranks with the same memory format share. Needs 64 MiB more at most.
at::Tensor checksums(const NamedTensors& tensors, c10::Device device);

}  // namespace ampctl::dist
