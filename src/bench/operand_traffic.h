// How many bytes the operators of a piece of work take in and give out.
#pragma once

#include <cstdint>
#include <functional>

namespace ampctl::bench {

/// Runs `work` and returns the bytes of all tensors that its operators read and wrote, each operator's inputs
/// and outputs counted once: the traffic to memory if nothing stayed in a cache and no operator read anything
/// twice. Of operators built from others the innermost ones count; those of this project as a whole, since
/// each is one pass. Views and allocations move nothing. Threads of the backward pass are included.
[[nodiscard]] int64_t operand_traffic(const std::function<void()>& work);

}  // namespace ampctl::bench
