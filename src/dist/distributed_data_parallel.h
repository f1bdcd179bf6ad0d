// DistributedDataParallel over c10d::Reducer: gradients are averaged over the ranks while backward runs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "dist/named_tensors.h"
#include "dist/world.h"

namespace ampctl::dist {

/// Names and defaults are torch.nn.parallel.DistributedDataParallel's.
struct DdpOptions {
  /// In what gradients travel. 16 bit halves the traffic and rounds each rank's share once and each partial
  /// sum again: relative errors about 2^-11 (float16, whose largest value is 65504) and 2^-8 (bfloat16).
  enum class Compression { none, float16, bfloat16 };

  double bucket_cap_mb = 25.0;           ///< MiB of gradients sent at once; the first bucket holds 1 MiB
  bool gradient_as_bucket_view = false;  ///< gradients are views of the buckets: zero them in place
  bool find_unused_parameters = false;
  bool broadcast_buffers = true;  ///< rank 0's before each synchronising forward
  Compression compression = Compression::none;
};

/// One window of accumulated micro-batches:
///   all but the last   forward, backward                                  (this is PyTorch's no_sync)
///   the last           prepare_forward, forward, prepare_backward, backward
/// After the last backward every gradient is the sum over the ranks divided by the world size, on every rank
/// equal to the last bit. For the mean over a window of n samples a rank weights its summed loss by
/// size / n, which is exact also when ranks hold different numbers of samples.
///
/// In a world of one nothing is held and both functions return at once. The world must outlive it and stay
/// where it is. What backward throws when a peer fails is made an Error by with_peer_errors (peers.h).
class DistributedDataParallel {
 public:
  /// Collective. `parameters`: all of the model's, by name, those without requires_grad too (they are only
  /// verified and broadcast); a tensor that appears twice is taken once. `buffers`: all of them; they must
  /// stay the same tensors.
  /// Throws usage on every rank, naming each difference, when names, order, shapes, dtypes, memory formats
  /// or requires_grad differ between ranks, and when no parameter requires a gradient.
  /// Parameters and buffers then are rank 0's. Memory formats (channels_last) must be chosen before.
  /// For a CUDA graph: construct it on the capturing stream, run at least 11 windows before the capture.
  DistributedDataParallel(const World& world, const NamedTensors& parameters, std::vector<at::Tensor> buffers,
                          const DdpOptions& options);
  ~DistributedDataParallel();
  DistributedDataParallel(DistributedDataParallel&&) noexcept;
  DistributedDataParallel& operator=(DistributedDataParallel&&) noexcept;
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Before the forward of a window's last micro-batch: after the first window puts the buckets into the
  /// order in which gradients really came, and broadcasts rank 0's buffers.
  void prepare_forward();

  /// True when a gradient that is reduced ends as a view of its bucket, and one that lies there already when
  /// backward makes it is not copied.
  [[nodiscard]] bool gradients_are_bucket_views() const;

  /// Between that forward and its backward. `outputs` are what backward starts from; they are only looked at
  /// with find_unused_parameters.
  void prepare_backward(const std::vector<at::Tensor>& outputs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ampctl::dist
