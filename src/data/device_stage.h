// The way of a batch from host memory to the training device, without waiting on the host.
#pragma once

#include <cstdint>
#include <optional>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>

#include "data/batch.h"
#include "data/decode_pool.h"
#include "data/transforms.h"

namespace ampctl::data {

/// A batch whose copy and normalisation may still be under way.
struct StagedBatch {
  Batch batch;
  std::optional<c10::Event> ready;  ///< absent: it is there
};

class DeviceStage {
 public:
  DeviceStage(c10::Device device, const ChannelAffine& affine, c10::ScalarType dtype, bool channels_last);

  /// Starts copying and normalising on a stream of its own (on the CPU: does it, with no copy between).
  /// Sets all of the batch but corrupt and wait_seconds.
  StagedBatch stage(const HostBatch& host) const;

  /// Makes the caller's current stream wait for the batch, which is then in order with work queued there.
  Batch release(StagedBatch staged) const;

 private:
  c10::Device device_;
  c10::ScalarType dtype_;
  bool channels_last_;
  at::Tensor scale_;  // (C) float32 on the device
  at::Tensor shift_;
  std::optional<c10::Stream> copies_;  // absent on the CPU
};

}  // namespace ampctl::data
