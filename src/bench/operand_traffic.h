// How many bytes the operators of a piece of work take in and give out.
#pragma once

#include <cstdint>
#include <functional>

namespace ampctl::bench {

/// Runs `work` and returns the bytes of all tensors that its operators read and wrote, each operator's inputs
/// and outputs counted once: the traffic to memory if nothing stayed in a cache and no operator read anything
/// twice. One made of others counts as much as they do, or as its own operands where that is more. Views and
/// allocations move nothing. Threads of the backward pass are included.
[[nodiscard]] int64_t operand_traffic(const std::function<void()>& work);

}  // namespace ampctl::bench
