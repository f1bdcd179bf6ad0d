#include "kernels/normalize_images.h"

#include <cstdint>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "base/error.h"

namespace ampctl::kernels {
namespace {

using Op = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::ScalarType, bool);

constexpr int64_t kMaxChannels = 4;
constexpr int64_t kGrain = 32768;  // elements that are worth a thread

at::MemoryFormat memory_format(bool channels_last) {
  return channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

template <typename T>
void normalize_into(const at::Tensor& images, const float* scale, const float* shift, bool channels_last,
                    at::Tensor& out) {
  const int64_t channels = images.size(3);
  const int64_t plane = images.size(1) * images.size(2);
  const int64_t pixel_stride = channels_last ? channels : 1;
  const int64_t channel_stride = channels_last ? 1 : plane;
  const auto* from = images.const_data_ptr<uint8_t>();
  auto* to = out.mutable_data_ptr<T>();
  const int64_t image_grain = kGrain / (plane * channels) + 1;
  at::parallel_for(0, images.size(0), image_grain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const uint8_t* image = from + n * plane * channels;
      T* result = to + n * plane * channels;
      for (int64_t pixel = 0; pixel < plane; ++pixel) {
        for (int64_t c = 0; c < channels; ++c) {
          const float scaled = static_cast<float>(image[pixel * channels + c]) * scale[c];
          result[pixel * pixel_stride + c * channel_stride] = static_cast<T>(scaled + shift[c]);
        }
      }
    }
  });
}

at::Tensor normalize_images_cpu(const at::Tensor& images, const at::Tensor& scale, const at::Tensor& shift,
                                at::ScalarType dtype, bool channels_last) {
  at::Tensor out = at::empty({images.size(0), images.size(3), images.size(1), images.size(2)},
                             images.options().dtype(dtype), memory_format(channels_last));
  if (images.numel() == 0) return out;
  const auto* scales = scale.const_data_ptr<float>();
  const auto* shifts = shift.const_data_ptr<float>();
  switch (dtype) {
    case at::kHalf:
      normalize_into<at::Half>(images, scales, shifts, channels_last, out);
      break;
    case at::kBFloat16:
      normalize_into<at::BFloat16>(images, scales, shifts, channels_last, out);
      break;
    default:
      normalize_into<float>(images, scales, shifts, channels_last, out);
  }
  return out;
}

at::Tensor composition(const at::Tensor& images, const at::Tensor& scale, const at::Tensor& shift,
                       at::ScalarType dtype, bool channels_last) {
  return images.permute({0, 3, 1, 2})
      .to(at::kFloat)
      .mul(scale.view({1, -1, 1, 1}))
      .add(shift.view({1, -1, 1, 1}))
      .to(dtype)
      .contiguous(memory_format(channels_last));
}

void check(const at::Tensor& images, const at::Tensor& scale, const at::Tensor& shift, at::ScalarType dtype) {
  const bool good_images = images.scalar_type() == at::kByte && images.dim() == 4 && images.is_contiguous() &&
                           images.size(3) >= 1 && images.size(3) <= kMaxChannels;
  if (!good_images) {
    throw usage_error(
        "normalize_images takes contiguous uint8 images (N, H, W, C) of 1 to 4 channels, but found " +
        images.toString() + " of " + std::to_string(images.dim()) + " dimensions");
  }
  for (const auto* factor : {&scale, &shift}) {
    if (factor->scalar_type() != at::kFloat || factor->dim() != 1 || factor->size(0) != images.size(3) ||
        !factor->is_contiguous() || factor->device() != images.device()) {
      throw usage_error("normalize_images takes scale and shift as contiguous float32 (" +
                        std::to_string(images.size(3)) + ") on " + images.device().str() + ", but found " +
                        factor->toString() + " of " + std::to_string(factor->numel()) + " elements on " +
                        factor->device().str());
    }
  }
  if (dtype != at::kFloat && dtype != at::kHalf && dtype != at::kBFloat16) {
    throw usage_error(std::string("normalize_images makes float32, float16 or bfloat16, not ") +
                      c10::toString(dtype));
  }
}

}  // namespace

at::Tensor normalize_images(const at::Tensor& images, const at::Tensor& scale, const at::Tensor& shift,
                            at::ScalarType dtype, bool channels_last) {
  const at::NoGradGuard no_grad;
  check(images, scale, shift, dtype);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ampctl::normalize_images", "").typed<Op>();
  return op.call(images, scale, shift, dtype, channels_last);
}

at::Tensor normalize_images_reference(const at::Tensor& images, const at::Tensor& scale,
                                      const at::Tensor& shift, at::ScalarType dtype, bool channels_last) {
  const at::NoGradGuard no_grad;
  check(images, scale, shift, dtype);
  return composition(images, scale, shift, dtype, channels_last);
}

TORCH_LIBRARY_FRAGMENT(ampctl, library) {
  library.def(
      "normalize_images(Tensor images, Tensor scale, Tensor shift, ScalarType dtype, bool channels_last) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(ampctl, CPU, library) { library.impl("normalize_images", &normalize_images_cpu); }

#ifndef AMPCTL_WITH_CUDA
TORCH_LIBRARY_IMPL(ampctl, CUDA, library) { library.impl("normalize_images", &composition); }
#endif

}  // namespace ampctl::kernels
