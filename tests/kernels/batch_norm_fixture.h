// Batch norm layers in small, as the tests of the fused operators need them.
#pragma once

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/batch_norm_act.h"

namespace ampctl::test {

struct ImageShape {
  int64_t n, channels, height, width;
};

// Fewer channels than a block takes, whole groups of them, and some left over; one image, odd sizes, and more
// rows than a tile and than one round of all blocks.
inline const std::vector<ImageShape> kBatchNormShapes{
    {1, 8, 5, 7},     {2, 24, 9, 5},  {3, 64, 7, 7},    {2, 72, 11, 13}, {1, 2048, 3, 5},
    {5, 256, 17, 19}, {9, 8, 61, 67}, {2, 136, 41, 43}, {1, 136, 1, 23}, {4, 256, 29, 31}};

inline at::Tensor random_images(const ImageShape& shape, at::ScalarType dtype, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn({shape.n, shape.channels, shape.height, shape.width}, generator, at::kDouble)
      .to(dtype)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

/// Parameters and statistics that differ from channel to channel; float64 for float64 inputs, else float32.
inline kernels::BatchNormInputs batch_norm_inputs(int64_t channels, at::ScalarType dtype,
                                                  c10::Device device) {
  const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const at::Generator generator = at::detail::createCPUGenerator(channels);
  const auto draw = [&](double low, double high) {
    const at::Tensor unit = at::rand({channels}, generator, at::kDouble);
    return (unit * (high - low) + low).to(at::TensorOptions(device).dtype(wide));
  };
  kernels::BatchNormInputs inputs;
  inputs.weight = draw(-1.5, 1.5).set_requires_grad(true);
  inputs.bias = draw(-0.5, 0.5).set_requires_grad(true);
  inputs.running_mean = draw(-1, 1);
  inputs.running_var = draw(0.5, 2);
  inputs.num_batches_tracked = at::full({}, 4, at::TensorOptions(device).dtype(at::kLong));
  at::Tensor kept;
  inputs.tickets = kernels::batch_norm_tickets(kept, device);
  return inputs;
}

/// The same numbers in float64 on the CPU, as tensors of their own.
inline kernels::BatchNormInputs in_float64(const kernels::BatchNormInputs& inputs) {
  const auto convert = [](const at::Tensor& tensor) {
    return tensor.detach().to(at::TensorOptions(at::kCPU).dtype(at::kDouble), false, /*copy=*/true);
  };
  kernels::BatchNormInputs wide = inputs;
  wide.weight = convert(inputs.weight).set_requires_grad(true);
  wide.bias = convert(inputs.bias).set_requires_grad(true);
  wide.running_mean = convert(inputs.running_mean);
  wide.running_var = convert(inputs.running_var);
  wide.num_batches_tracked = inputs.num_batches_tracked.cpu().clone();
  wide.tickets = at::Tensor();
  return wide;
}

inline at::Tensor in_float64(const at::Tensor& tensor) { return tensor.detach().cpu().to(at::kDouble); }

/// PyTorch's own batch norm in training.
inline at::Tensor stock_batch_norm(const at::Tensor& input, const kernels::BatchNormInputs& inputs) {
  return at::batch_norm(input, inputs.weight, inputs.bias, inputs.running_mean, inputs.running_var,
                        /*training=*/true, inputs.momentum, inputs.eps, /*cudnn_enabled=*/true);
}

/// |found - wanted| / |wanted| in the Euclidean norm.
inline double relative_error(const at::Tensor& found, const at::Tensor& wanted) {
  const at::Tensor difference = in_float64(found) - in_float64(wanted);
  return (difference.norm() / in_float64(wanted).norm().clamp_min(1e-300)).item<double>();
}

/// Half a unit in the last place of a number that is rounded once.
inline double rounding(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return 1.0 / (1 << 11);
    case at::kBFloat16:
      return 1.0 / (1 << 8);
    case at::kFloat:
      return 1.0 / (1 << 20);  // of sums in float32
    default:
      return 1e-12;
  }
}

}  // namespace ampctl::test
