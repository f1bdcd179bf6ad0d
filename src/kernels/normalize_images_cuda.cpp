#include <cstdint>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/normalize_images_kernel.h"

namespace ampctl::kernels {
namespace {

constexpr uintptr_t kPieceBytes = 4;  // the kernel reads its input in aligned words

ImageType image_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return ImageType::float16;
    case at::kBFloat16:
      return ImageType::bfloat16;
    default:
      return ImageType::float32;
  }
}

at::Tensor normalize_images_cuda(const at::Tensor& images, const at::Tensor& scale, const at::Tensor& shift,
                                 at::ScalarType dtype, bool channels_last) {
  const c10::cuda::CUDAGuard guard(images.device());
  const bool aligned = reinterpret_cast<uintptr_t>(images.const_data_ptr()) % kPieceBytes == 0;
  const at::Tensor input = aligned ? images : images.clone();
  at::Tensor out = at::empty({images.size(0), images.size(3), images.size(1), images.size(2)},
                             images.options().dtype(dtype),
                             channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  NormalizeImages work{};
  work.images = input.const_data_ptr<uint8_t>();
  work.scale = scale.const_data_ptr<float>();
  work.shift = shift.const_data_ptr<float>();
  work.out = out.mutable_data_ptr();
  work.type = image_type(dtype);
  work.channels_last = channels_last;
  work.n = images.size(0);
  work.plane = images.size(1) * images.size(2);
  work.channels = static_cast<int>(images.size(3));
  C10_CUDA_CHECK(launch_normalize_images(work, c10::cuda::getCurrentCUDAStream()));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) { library.impl("normalize_images", &normalize_images_cuda); }

}  // namespace ampctl::kernels
