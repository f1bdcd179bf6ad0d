// Collective operations: every rank calls the same ones in the same order. In a world of one they change
// nothing.
//
// A failure is an Error of kind peer that names the operation, what the transport said, and the ranks that
// are gone, stopped or have left the reason of their own failure (peers.h), as far as that can be told.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "dist/world.h"

namespace ampctl::dist {

/// Sum over all ranks, in place; any shape, on the world's device, the same shape and dtype on every rank.
/// Under NCCL it is only enqueued on the current stream: the host does not wait, and a CUDA graph can hold
/// it.
void all_reduce_sum_(const World& world, at::Tensor& tensor);

/// As all_reduce_sum_, but the largest value: for flags such as found_inf, which stay 0 or 1.
void all_reduce_max_(const World& world, at::Tensor& tensor);

/// Rank 0's values on every rank, in place; tensors on the world's device, of any dtypes.
void broadcast_(const World& world, const std::vector<at::Tensor>& tensors);

/// Every rank's host tensor (equal shapes and dtypes), by rank, on every rank; through the control group.
std::vector<at::Tensor> gather_host(const World& world, const at::Tensor& tensor);

/// Every rank's text, by rank, on every rank; through the control group.
std::vector<std::string> gather_texts(const World& world, const std::string& text);

/// Returns when every rank has called it; the host waits, the device does not.
void barrier(const World& world);

}  // namespace ampctl::dist
