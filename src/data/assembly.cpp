#include "data/assembly.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>

#include "base/error.h"

namespace ampctl::data {
namespace {

at::TensorOptions host_options(at::ScalarType dtype, bool pinned) {
  return at::TensorOptions().dtype(dtype).pinned_memory(pinned);
}

std::string size_text(int64_t height, int64_t width) {
  return std::to_string(width) + "x" + std::to_string(height);
}

}  // namespace

Assembly::Assembly(int64_t epoch, std::shared_ptr<const std::vector<int64_t>> order, int64_t start,
                   int64_t count, bool pinned)
    : epoch_(epoch),
      order_(std::move(order)),
      start_(start),
      count_(count),
      pinned_(pinned),
      bad_(static_cast<size_t>(count), 0) {}

int64_t Assembly::index_at(int64_t place) const { return (*order_)[static_cast<size_t>(start_ + place)]; }

void Assembly::allocate(const Image& image) {
  images_ = at::empty({count_, image.height, image.width, image.channels}, host_options(at::kByte, pinned_));
}

std::exception_ptr Assembly::size_error(int64_t place, const Image& image, const Dataset& dataset) const {
  return std::make_exception_ptr(environment_error(
      "the images of a batch must have one size after their transforms, but " +
      dataset.sample_name(index_at(first_place_)) + " has " + size_text(images_.size(1), images_.size(2)) +
      " pixels and " + dataset.sample_name(index_at(place)) + " has " + size_text(image.height, image.width) +
      "; add a resize and a crop to the transforms"));
}

void Assembly::add(int64_t place, const Image& image, const Dataset& dataset,
                   std::unique_lock<std::mutex>& lock) {
  if (dropped_) return;
  if (!images_.defined()) {
    try {
      allocate(image);
    } catch (...) {
      return add_error(place, std::current_exception());
    }
    first_place_ = place;
  }
  if (image.height != images_.size(1) || image.width != images_.size(2) ||
      image.channels != images_.size(3)) {
    return add_error(place, size_error(place, image, dataset));
  }
  auto* to = images_.mutable_data_ptr<uint8_t>() + place * static_cast<int64_t>(image.pixels.size());
  ++copying_;
  lock.unlock();
  std::memcpy(to, image.pixels.data(), image.pixels.size());
  lock.lock();
  --copying_;
  ++done_;
  if (dropped_) copied_.notify_all();
}

void Assembly::add_skipped(int64_t place, SkippedSample skipped) {
  bad_[static_cast<size_t>(place)] = 1;
  skipped_.emplace_back(place, std::move(skipped));
  ++done_;
}

void Assembly::add_error(int64_t place, std::exception_ptr error) {
  bad_[static_cast<size_t>(place)] = 1;
  if (error_ == nullptr || place < error_place_) {
    error_ = std::move(error);
    error_place_ = place;
  }
  ++done_;
}

void Assembly::close_gaps(const std::vector<int64_t>& kept) {
  const int64_t bytes = images_.numel() / count_;
  auto* pixels = images_.mutable_data_ptr<uint8_t>();
  for (size_t row = 0; row < kept.size(); ++row) {
    const auto to = static_cast<int64_t>(row);
    if (kept[row] != to)
      std::memcpy(pixels + to * bytes, pixels + kept[row] * bytes, static_cast<size_t>(bytes));
  }
  images_ = images_.narrow(0, 0, static_cast<int64_t>(kept.size()));
}

HostBatch Assembly::finish(const Dataset& dataset) {
  HostBatch batch;
  batch.consumed = count_;
  batch.error = std::move(error_);
  if (batch.error != nullptr) return batch;
  std::sort(skipped_.begin(), skipped_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& entry : skipped_) batch.skipped.push_back(std::move(entry.second));

  std::vector<int64_t> kept;
  for (int64_t place = 0; place < count_; ++place) {
    if (bad_[static_cast<size_t>(place)] == 0) kept.push_back(place);
  }
  batch.targets = at::empty({static_cast<int64_t>(kept.size())}, host_options(at::kLong, pinned_));
  auto* target = batch.targets.mutable_data_ptr<int64_t>();
  for (const int64_t place : kept) *target++ = dataset.targets()[static_cast<size_t>(index_at(place))];
  if (images_.defined() && !skipped_.empty()) close_gaps(kept);
  batch.images = std::move(images_);
  return batch;
}

void Assembly::drop(std::unique_lock<std::mutex>& lock) {
  dropped_ = true;
  copied_.wait(lock, [this] { return copying_ == 0; });
  images_.reset();
}

}  // namespace ampctl::data
