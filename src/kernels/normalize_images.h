// From bytes to what a model takes, in one pass. Registered with PyTorch's dispatcher as
//   ampctl::normalize_images(Tensor images, Tensor scale, Tensor shift, ScalarType dtype,
//                            bool channels_last) -> Tensor
// with a CPU and a CUDA implementation; builds without CUDA kernels compose it of stock operators instead.
#pragma once

#include <ATen/core/Tensor.h>

namespace ampctl::kernels {

/// images (N, H, W, C) uint8, contiguous, C from 1 to 4; scale and shift (C) float32 on the same device.
/// Returns (N, C, H, W) with y = x * scale[c] + shift[c], worked out in float32 with both operations rounded,
/// then rounded to `dtype` (float32, float16 or bfloat16); contiguous or in channels_last memory format.
/// torchvision's Normalize(mean, std) after ToTensor is scale = 1 / (255 std), shift = -mean / std.
/// Nothing is read on the host. Throws a usage error for other dtypes and shapes.
at::Tensor normalize_images(const at::Tensor& images, const at::Tensor& scale, const at::Tensor& shift,
                            at::ScalarType dtype, bool channels_last);

/// The same from stock ATen operators, on any device.
at::Tensor normalize_images_reference(const at::Tensor& images, const at::Tensor& scale,
                                      const at::Tensor& shift, at::ScalarType dtype, bool channels_last);

}  // namespace ampctl::kernels
