#include "data/resident_batches.h"

#include <algorithm>
#include <cstring>

#include <ATen/ops/empty.h>

namespace ampctl::data {
namespace {

constexpr int64_t kBatches = 4;

HostBatch make_batch(const Dataset& dataset, int64_t first, int64_t count) {
  const config::DatasetFacts facts = dataset.facts();
  HostBatch batch;
  batch.consumed = count;
  batch.images = at::empty({count, facts.height, facts.width, facts.channels}, at::kByte);
  batch.targets = at::empty({count}, at::kLong);
  auto* pixels = batch.images.mutable_data_ptr<uint8_t>();
  auto* targets = batch.targets.mutable_data_ptr<int64_t>();
  for (int64_t row = 0; row < count; ++row) {
    const Sample sample = dataset.get((first + row) % dataset.size());
    std::memcpy(pixels, sample.image.pixels.data(), sample.image.pixels.size());
    pixels += sample.image.pixels.size();
    targets[row] = sample.target;
  }
  return batch;
}

}  // namespace

ResidentBatches::ResidentBatches(const Dataset& dataset, int64_t batch_size, const DeviceStage& stage)
    : batch_size_(batch_size) {
  const int64_t count = std::min(kBatches, (dataset.size() + batch_size - 1) / batch_size);
  for (int64_t k = 0; k < count; ++k) {
    batches_.push_back(stage.release(stage.stage(make_batch(dataset, k * batch_size, batch_size))));
  }
}

Batch ResidentBatches::at(int64_t epoch, int64_t start, int64_t count) const {
  const auto number = static_cast<size_t>(start / batch_size_ + epoch) % batches_.size();
  const Batch& whole = batches_[number];
  const int64_t first = std::min(start % batch_size_, batch_size_ - count);
  Batch batch;
  batch.images = whole.images.narrow(0, first, count);
  batch.targets = whole.targets.narrow(0, first, count);
  batch.size = count;
  batch.consumed = count;
  return batch;
}

}  // namespace ampctl::data
