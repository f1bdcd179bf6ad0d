#include "dist/consistency.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "dist/collectives.h"
#include "dist/facts.h"
#include "dist/rank_list.h"

namespace ampctl::dist {
namespace {

/// Elements at once, so that the extra memory is bounded (32 MiB of int64).
constexpr int64_t kChunk = int64_t{1} << 22;
/// Doubled and with 1 added, weights are odd: no difference in one element is lost modulo 2^64. The factors
/// (from the golden ratio, and SplitMix64's) only spread them.
constexpr int64_t kElementFactor = 0x1E3779B97F4A7C15;
constexpr int64_t kChunkFactor = 0x3F58476D1CE4E5B9;

constexpr size_t kNamedTensors = 10;

int64_t wrapping_odd(int64_t index, int64_t factor) {
  return static_cast<int64_t>(2 * static_cast<uint64_t>(index) * static_cast<uint64_t>(factor) + 1);
}

at::ScalarType integer_of(size_t bytes) {
  switch (bytes) {
    case sizeof(int64_t):
      return at::kLong;
    case sizeof(int32_t):
      return at::kInt;
    case sizeof(int16_t):
      return at::kShort;
    default:
      return at::kByte;
  }
}

/// The bits in memory order, [n], without a copy where the tensor has no holes.
at::Tensor bits_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  return dense.as_strided({dense.numel()}, {1}, dense.storage_offset())
      .view(integer_of(dense.element_size()));
}

at::Tensor checksum(const at::Tensor& tensor, const at::Tensor& weights) {
  const at::Tensor bits = bits_of(tensor.detach());
  at::Tensor sum = at::zeros({}, weights.options());
  for (int64_t begin = 0, chunk = 0; begin < bits.numel(); begin += kChunk, ++chunk) {
    const int64_t size = std::min(kChunk, bits.numel() - begin);
    const at::Tensor part = at::mul(bits.narrow(0, begin, size), weights.narrow(0, 0, size)).sum();
    sum.add_(part, wrapping_odd(chunk, kChunkFactor));
  }
  return sum;
}

/// Ranks without the most frequent value (of two as frequent: the one of the lower rank).
std::vector<int64_t> minority(const std::vector<int64_t>& values) {
  std::map<int64_t, size_t> counts;
  for (const int64_t value : values) ++counts[value];
  const auto usual = *std::max_element(values.begin(), values.end(),
                                       [&](int64_t a, int64_t b) { return counts[a] < counts[b]; });
  std::vector<int64_t> ranks;
  for (size_t rank = 0; rank < values.size(); ++rank) {
    if (values[rank] != usual) ranks.push_back(static_cast<int64_t>(rank));
  }
  return ranks;
}

std::string text_of(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

Facts host_state(int64_t step, double scale, int64_t skipped) {
  return {{"step", std::to_string(step)},
          {"loss scale", text_of(scale)},
          {"skipped steps", std::to_string(skipped)}};
}

/// [tensors][ranks]
std::vector<std::vector<int64_t>> by_tensor(const std::vector<at::Tensor>& gathered, size_t tensors) {
  std::vector<std::vector<int64_t>> columns(tensors);
  for (const auto& sums : gathered) {
    const auto* values = sums.const_data_ptr<int64_t>();
    for (size_t i = 0; i < tensors; ++i) columns[i].push_back(values[i]);
  }
  return columns;
}

std::string tensor_differences(const World& world, const NamedTensors& tensors) {
  const auto gathered = gather_host(world, checksums(tensors, world.device()).cpu());
  const auto columns = by_tensor(gathered, tensors.size());
  std::string text;
  size_t count = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto ranks = minority(columns[i]);
    if (ranks.empty()) continue;
    if (++count <= kNamedTensors) text += "\n  " + tensors[i].first + " on " + rank_list(ranks);
  }
  if (count > kNamedTensors) text += "\n  and " + std::to_string(count - kNamedTensors) + " more tensors";
  return text;
}

}  // namespace

at::Tensor checksums(const NamedTensors& tensors, c10::Device device) {
  const at::NoGradGuard no_grad;
  const auto options = at::TensorOptions(at::kLong).device(device);
  if (tensors.empty()) return at::zeros({0}, options);
  int64_t largest = 1;
  for (const auto& [name, tensor] : tensors) largest = std::max(largest, std::min(tensor.numel(), kChunk));
  const at::Tensor weights = at::arange(largest, options).mul_(2).mul_(kElementFactor).add_(1);
  std::vector<at::Tensor> sums;
  sums.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) sums.push_back(checksum(tensor, weights));
  return at::stack(sums);
}

void require_equal(const World& world, const Facts& facts, const std::string& what) {
  const std::string found = find_differences(world, facts);
  if (found.empty()) return;
  throw usage_error("the ranks do not agree on " + what + ":" + found +
                    "\nstart all of them with the same program, files and options");
}

void require_no_drift(const World& world, int64_t step, double scale, int64_t skipped,
                      const NamedTensors& tensors) {
  if (world.size() == 1) return;
  const std::string found =
      find_differences(world, host_state(step, scale, skipped)) + tensor_differences(world, tensors);
  if (found.empty()) return;
  throw Error(
      ErrorKind::internal,
      "the ranks have drifted apart at step " + std::to_string(step) +
          ", though they must be equal to the last bit:" + found +
          "\nnothing is saved; go on from the last checkpoint, and when it happens again look for a GPU " +
          "or memory that computes wrongly (`nvidia-smi -q -d ECC`, the kernel's log)");
}

}  // namespace ampctl::dist
