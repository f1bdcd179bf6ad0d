#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/stem_conv.h"
#include "kernels/stem_conv_kernel.h"

namespace ampctl::kernels {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
constexpr uintptr_t kAlignment = 16;

StemType type_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return StemType::float16;
    case at::kBFloat16:
      return StemType::bfloat16;
    default:
      return StemType::float32;
  }
}

StemConv convolution_of(const at::Tensor& input, at::ScalarType compute) {
  return {type_of(input.scalar_type()),
          type_of(compute),
          input.size(0),
          static_cast<int>(input.size(2)),
          static_cast<int>(input.size(3)),
          at::cuda::getDeviceProperties(input.get_device())->multiProcessorCount};
}

std::array<int64_t, 4> output_sizes(const at::Tensor& input) {
  return {input.size(0), kStemOutChannels, stem_pixels(input.size(2)), stem_pixels(input.size(3))};
}

at::Tensor make_partials(const StemConv& conv, int64_t block_partials, const at::Tensor& input) {
  return at::empty({stem_conv_blocks(conv) * block_partials}, input.options().dtype(at::kFloat));
}

/// Gradients as the kernels read them.
at::Tensor readable(const at::Tensor& grad_output) {
  const bool is_readable = grad_output.is_contiguous(kChannelsLast) &&
                           reinterpret_cast<uintptr_t>(grad_output.const_data_ptr()) % kAlignment == 0;
  if (is_readable) return grad_output;
  at::Tensor copy = at::empty_like(grad_output, grad_output.options(), kChannelsLast);
  return copy.copy_(grad_output);
}

std::tuple<at::Tensor, at::Tensor> forward_cuda(const at::Tensor& input, const at::Tensor& weight) {
  // What has no kernel comes here as well.
  if (!has_stem_conv_kernel(input, weight)) {
    Convolved convolved = stem_conv_reference(input, weight);
    return {std::move(convolved.output), std::move(convolved.sums)};
  }
  const c10::cuda::CUDAGuard guard(input.device());
  const StemConv conv = convolution_of(input, weight.scalar_type());
  const at::Tensor taps = weight.contiguous(kChannelsLast);
  const at::Tensor partials = make_partials(conv, kStemForwardPartials, input);
  at::Tensor output = at::empty(output_sizes(input), weight.options(), kChannelsLast);
  at::Tensor sums = at::empty({2, kStemOutChannels}, input.options().dtype(at::kFloat));
  const StemForward tensors{input.const_data_ptr(), taps.const_data_ptr(), output.mutable_data_ptr(),
                            partials.mutable_data_ptr<float>(), sums.mutable_data_ptr<float>()};
  C10_CUDA_CHECK(launch_stem_conv_forward(conv, tensors, c10::cuda::getCurrentCUDAStream()));
  return {std::move(output), std::move(sums)};
}

at::Tensor weight_backward_cuda(const at::Tensor& grad_output, const at::Tensor& input,
                                const at::Tensor& weight) {
  const bool has_kernel = has_stem_conv_kernel(input, weight) &&
                          grad_output.scalar_type() == weight.scalar_type() &&
                          grad_output.sizes() == at::IntArrayRef(output_sizes(input));
  if (!has_kernel) return stem_conv_weight_backward_reference(grad_output, input, weight);
  const c10::cuda::CUDAGuard guard(input.device());
  const StemConv conv = convolution_of(input, weight.scalar_type());
  const at::Tensor dy = readable(grad_output);
  const at::Tensor partials = make_partials(conv, kStemWeightPartials, input);
  at::Tensor grad_weight = at::empty(weight.sizes(), weight.options(), kChannelsLast);
  const StemWeightGradient tensors{dy.const_data_ptr(), input.const_data_ptr(),
                                   partials.mutable_data_ptr<float>(), grad_weight.mutable_data_ptr()};
  C10_CUDA_CHECK(launch_stem_conv_weight(conv, tensors, c10::cuda::getCurrentCUDAStream()));
  return grad_weight;
}

}  // namespace

bool has_stem_conv_kernel(const at::Tensor& input, const at::Tensor& weight) {
  const at::ScalarType read = input.scalar_type();
  const at::ScalarType compute = weight.scalar_type();
  const bool has_types = (read == at::kFloat || read == at::kHalf || read == at::kBFloat16) &&
                         (compute == at::kHalf || compute == at::kBFloat16);
  constexpr std::array<int64_t, 4> kWeightSizes{kStemOutChannels, kStemInChannels, kStemKernel, kStemKernel};
  const bool has_sizes = input.dim() == 4 && input.size(1) == kStemInChannels && input.size(2) >= 1 &&
                         input.size(3) >= 1 && weight.sizes() == at::IntArrayRef(kWeightSizes);
  if (!has_types || !has_sizes || !input.is_cuda() || weight.device() != input.device()) return false;
  constexpr int64_t kMaxImage = int64_t{1} << 30;  // rows and columns are 32-bit numbers
  const bool fits =
      input.size(3) <= kStemMaxWidth && kStemInChannels * input.size(2) * input.size(3) <= kMaxImage;
  if (!fits || !input.is_contiguous(kChannelsLast)) return false;
  constexpr int kTensorCores = 8;
  if (at::cuda::getDeviceProperties(input.get_device())->major < kTensorCores) return false;
  const c10::cuda::CUDAGuard guard(input.device());
  return has_stem_conv_code();
}

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) {
  library.impl("stem_conv", &forward_cuda);
  library.impl("stem_conv_weight_backward", &weight_backward_cuda);
}

}  // namespace ampctl::kernels
