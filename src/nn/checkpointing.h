// Activations that are computed again in the backward pass instead of being kept.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace ampctl::nn {

/// What is run twice: input to output, which shares no memory with the input, nor is the input changed.
using CheckpointedFunction = std::function<at::Tensor(const at::Tensor&)>;

/// `function(input)`, of which only the input is kept for backward: torch.utils.checkpoint of one function.
/// In the backward pass it runs again, on the same input, under the autocast state of the first run, with the
/// random generators of the CPU and of the input's device set back to where they were then (and forward again
/// afterwards); its gradients are the first run's, bit by bit, where the device's kernels repeat theirs.
///
/// `parameters` are the other tensors that gradients are to reach. They are inputs of one node of the
/// autograd graph, so that each is ready once in a backward pass, when the whole function is done, also for
/// an input that needs no gradient; PyTorch's reentrant form finds them by a nested backward() instead.
/// Gradients of gradients pass (create_graph). The function is kept alive by the graph.
///
/// While a CUDA graph is captured the device's generator is left alone, since its offsets are then the
/// graph's: the function must not draw from it (Layer sees to that). Throws an internal error for a function
/// that changes its input or returns a part of it.
at::Tensor checkpoint(CheckpointedFunction function, const at::Tensor& input,
                      const std::vector<at::Tensor>& parameters);

/// True in the second run of a checkpointed function, in the thread that runs it. What is to happen once a
/// step (batch norm's running statistics) happened in the first. It is a state of the thread, as autocast and
/// gradient mode are, since it holds for everything that the function calls.
bool is_recomputing();

/// True while work on this device's current stream is recorded into a CUDA graph, not run.
bool is_capturing(c10::Device device);

}  // namespace ampctl::nn
