#include "kernels/batch_norm_cuda.h"

#include <cstdint>
#include <tuple>

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>

namespace ampctl::kernels {
namespace {

constexpr int64_t kPasses = 2;
constexpr uintptr_t kAlignment = 16;

BatchNormType type_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return BatchNormType::float16;
    case at::kBFloat16:
      return BatchNormType::bfloat16;
    default:
      return BatchNormType::float32;
  }
}

bool is_kernel_type(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat;
}

bool is_channel_vector(const at::Tensor& tensor, const at::Tensor& input) {
  return tensor.defined() && tensor.device() == input.device() && tensor.scalar_type() == at::kFloat &&
         tensor.dim() == 1 && tensor.size(0) == input.size(1) && tensor.is_contiguous();
}

}  // namespace

bool is_batch_norm_readable(const at::Tensor& images) {
  return images.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         reinterpret_cast<uintptr_t>(images.const_data_ptr()) % kAlignment == 0;
}

at::Tensor batch_norm_readable(const at::Tensor& images) {
  if (is_batch_norm_readable(images)) return images;
  at::Tensor copy = at::empty_like(images, images.options(), at::MemoryFormat::ChannelsLast);
  return copy.copy_(images);
}

bool has_batch_norm_kernel(const at::Tensor& input, const BatchNormInputs& inputs) {
  if (!input.is_cuda() || input.dim() != 4 || !is_kernel_type(input.scalar_type())) return false;
  const int64_t channels = input.size(1);
  const bool good_channels =
      channels > 0 && channels % kBatchNormPack == 0 && channels <= kBatchNormMaxChannels;
  // Packs are counted in 32 bits, with room for those that a last round of blocks leaves out.
  constexpr int64_t kMaxElements = int64_t{1} << 34;
  if (!good_channels || input.numel() < 2 * channels || input.numel() > kMaxElements) return false;
  if (!is_batch_norm_readable(input)) return false;
  const bool is_tracked = inputs.running_mean.defined() || inputs.running_var.defined();
  for (const auto& tensor : {inputs.weight, inputs.bias}) {
    if (!is_channel_vector(tensor, input)) return false;
  }
  for (const auto& tensor : {inputs.running_mean, inputs.running_var}) {
    if (is_tracked && !is_channel_vector(tensor, input)) return false;
  }
  const bool good_count =
      !inputs.num_batches_tracked.defined() || (inputs.num_batches_tracked.device() == input.device() &&
                                                inputs.num_batches_tracked.scalar_type() == at::kLong);
  const bool good_sums = !inputs.sums.defined() ||
                         (inputs.sums.device() == input.device() && inputs.sums.scalar_type() == at::kFloat &&
                          inputs.sums.numel() == 2 * channels && inputs.sums.is_contiguous());
  return good_count && good_sums && inputs.tickets.defined() && inputs.tickets.device() == input.device();
}

at::Tensor batch_norm_tickets(at::Tensor& kept, const c10::Device& device) {
  if (!device.is_cuda()) return {};
  if (kept.defined() && kept.device() == device) return kept;
  at::Tensor tickets = at::zeros({kPasses * kBatchNormMaxGroups}, at::TensorOptions(device).dtype(at::kInt));
  if (c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None) kept = tickets;
  return tickets;
}

BatchNormShape batch_norm_shape(const at::Tensor& input) {
  const int64_t channels = input.size(1);
  return {type_of(input.scalar_type()), input.numel() / channels, static_cast<int>(channels),
          at::cuda::getDeviceProperties(input.get_device())->multiProcessorCount};
}

BatchNormChannels batch_norm_channels(const BatchNormSaved& saved) {
  return {saved.weight.const_data_ptr<float>(), saved.bias.const_data_ptr<float>(),
          saved.mean.const_data_ptr<float>(), saved.invstd.const_data_ptr<float>()};
}

BatchNormWorkspace::BatchNormWorkspace(const BatchNormShape& shape, const at::Tensor& tickets,
                                       BatchNormPass pass)
    : partials_(at::empty({batch_norm_partials(shape.channels, shape.multiprocessors)},
                          tickets.options().dtype(at::kFloat))),
      tickets_(tickets.narrow(0, static_cast<int64_t>(pass) * kBatchNormMaxGroups, kBatchNormMaxGroups)) {}

BatchNormScratch BatchNormWorkspace::scratch() const {
  return {partials_.mutable_data_ptr<float>(),
          reinterpret_cast<unsigned*>(tickets_.mutable_data_ptr<int32_t>())};
}

std::tuple<at::Tensor, at::Tensor> batch_norm_statistics(const at::Tensor& input, const BatchNormShape& shape,
                                                         const BatchNormInputs& inputs) {
  at::Tensor mean = at::empty({shape.channels}, inputs.weight.options());
  at::Tensor invstd = at::empty_like(mean);
  const BatchNormWorkspace workspace(shape, inputs.tickets, BatchNormPass::forward);
  const BatchNormStatistics statistics{
      mean.mutable_data_ptr<float>(),
      invstd.mutable_data_ptr<float>(),
      inputs.running_mean.defined() ? inputs.running_mean.mutable_data_ptr<float>() : nullptr,
      inputs.running_var.defined() ? inputs.running_var.mutable_data_ptr<float>() : nullptr,
      inputs.num_batches_tracked.defined() ? inputs.num_batches_tracked.mutable_data_ptr<int64_t>() : nullptr,
      static_cast<float>(inputs.momentum),
      static_cast<float>(inputs.eps),
      inputs.sums.defined() ? inputs.sums.const_data_ptr<float>() : nullptr};
  C10_CUDA_CHECK(launch_batch_norm_statistics(shape, input.const_data_ptr(), statistics, workspace.scratch(),
                                              c10::cuda::getCurrentCUDAStream()));
  return {mean, invstd};
}

}  // namespace ampctl::kernels
