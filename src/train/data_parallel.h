// One process, several devices: what torch.nn.DataParallel does, for one micro-batch at a time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "data/batch.h"
#include "nn/layer.h"
#include "train/flat_tensors.h"
#include "train/task_thread.h"

namespace ampctl::train {

class DataParallel {
 public:
  /// Builds another model of the same kind on a device; its values do not matter.
  using ModelFactory = std::function<nn::LayerPtr(c10::Device)>;

  /// Forward, summed loss and backward of `part` on one replica; returns the loss, detached. `loss_scale` is
  /// the caller's, on the replica's device. It runs in the replica's thread, all replicas at once, with the
  /// caller's thread-local state (gradient mode, profiler); autocast it enters itself.
  using ForwardBackward =
      std::function<at::Tensor(nn::Layer& replica, const data::Batch& part, const at::Tensor& loss_scale)>;

  /// `model`, in its final place and memory order, is replica 0 and works in the caller's thread; `devices`
  /// are those of the other replicas. The model outlives this and keeps its parameters' memory order. Throws
  /// an internal error when the factory's models differ from `model`.
  DataParallel(nn::Layer& model, const std::vector<c10::Device>& devices, const ModelFactory& factory);

  /// One micro-batch (at least one sample, on the model's device): copies the model's parameters, buffers and
  /// mode to the replicas; splits the batch along its first dimension as torch.chunk does (with fewer samples
  /// than replicas the last ones rest); runs `body` on each part; adds the replicas' gradients to the model's
  /// in the order of the replicas; returns the sum of the losses, on the model's device. Buffers are the
  /// model's own afterwards: batch norm's statistics follow replica 0's part alone, as in PyTorch. Waits for
  /// the threads, but reads nothing from a device. `loss_scale`: undefined, or 0-dim.
  ///
  /// What a replica throws comes out when all have ended, the first replica's first, its message naming
  /// replica and device; types and kinds of errors stay (of std::exception: an internal error).
  at::Tensor run(const data::Batch& batch, const at::Tensor& loss_scale, const ForwardBackward& body);

 private:
  struct Replica {
    Replica(nn::LayerPtr replica, c10::Device place, const std::vector<at::Tensor>& model_parameters,
            const std::vector<at::Tensor>& model_buffers);
    nn::LayerPtr model;
    c10::Device device;
    FlatTensors parameters;
    FlatTensors buffers;
    FlatTensors gradients;
    TaskThread thread;
  };

  void broadcast();
  [[nodiscard]] std::vector<data::Batch> scatter(const data::Batch& batch) const;
  void add_gradients(const Replica& replica);

  nn::Layer& model_;
  std::vector<at::Tensor> model_parameters_;
  std::vector<at::Tensor> model_buffers_;
  c10::Device device_;
  FlatTensors parameters_;  // on the model's device: parameters leave through it, gradients arrive in it
  FlatTensors buffers_;
  std::vector<std::unique_ptr<Replica>> replicas_;  // all but the first
};

}  // namespace ampctl::train
