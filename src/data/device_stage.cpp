#include "data/device_stage.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "kernels/normalize_images.h"

namespace ampctl::data {
namespace {

at::Tensor vector_on(c10::Device device, const std::vector<float>& values) {
  at::Tensor host = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::copy(values.begin(), values.end(), host.mutable_data_ptr<float>());
  return host.to(device);
}

}  // namespace

DeviceStage::DeviceStage(c10::Device device, const ChannelAffine& affine, c10::ScalarType dtype,
                         bool channels_last)
    : device_(device),
      dtype_(dtype),
      channels_last_(channels_last),
      scale_(vector_on(device, affine.scale)),
      shift_(vector_on(device, affine.shift)) {
  if (!device.is_cpu()) {
    copies_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
}

StagedBatch DeviceStage::stage(const HostBatch& host) const {
  StagedBatch staged;
  staged.batch.consumed = host.consumed;
  staged.batch.size = host.targets.numel();
  if (!copies_) {
    staged.batch.targets = host.targets;
    if (host.images.defined()) {
      staged.batch.images = kernels::normalize_images(host.images, scale_, shift_, dtype_, channels_last_);
    }
    return staged;
  }
  const c10::StreamGuard guard(*copies_);
  constexpr bool kNonBlocking = true;
  staged.batch.targets = host.targets.to(device_, kNonBlocking);
  if (host.images.defined()) {
    staged.batch.images = kernels::normalize_images(host.images.to(device_, kNonBlocking), scale_, shift_,
                                                    dtype_, channels_last_);
  }
  staged.ready.emplace(device_.type());
  staged.ready->record(*copies_);
  return staged;
}

Batch DeviceStage::release(StagedBatch staged) const {
  if (staged.ready) {
    const c10::Stream current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    staged.ready->block(current);
    staged.batch.targets.record_stream(current);
    if (staged.batch.images.defined()) staged.batch.images.record_stream(current);
  }
  return std::move(staged.batch);
}

}  // namespace ampctl::data
