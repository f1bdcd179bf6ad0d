#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/grad_stats_kernel.h"

namespace ampctl::kernels {
namespace {

using GradStatsOpResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

GradType grad_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return GradType::float16;
    case at::kBFloat16:
      return GradType::bfloat16;
    case at::kFloat:
      return GradType::float32;
    default:
      return GradType::float64;
  }
}

int64_t num_chunks(const at::Tensor& grad) { return (grad.numel() + kGradStatsChunk - 1) / kGradStatsChunk; }

void sum_chunks(const std::vector<at::Tensor>& grads, double* sums, uint8_t* flags, cudaStream_t stream) {
  GradStatsTensors tensors{};
  const auto launch = [&] {
    if (tensors.blocks > 0) C10_CUDA_CHECK(launch_grad_stats_chunks(tensors, sums, flags, stream));
    sums += tensors.blocks;
    flags += tensors.blocks;
    tensors.count = 0;
    tensors.blocks = 0;
  };
  for (const auto& grad : grads) {
    if (tensors.count == kGradStatsTensors) launch();
    tensors.tensors[tensors.count++] = {grad.const_data_ptr(), grad.numel(), tensors.blocks,
                                        grad_type(grad.scalar_type())};
    tensors.blocks += static_cast<int32_t>(num_chunks(grad));
  }
  launch();
}

void finish(const std::vector<at::Tensor>& grads, GradStatsPartials& partials,
            const GradStatsResults& results, cudaStream_t stream) {
  const auto launch = [&] { C10_CUDA_CHECK(launch_grad_stats_finish(partials, results, stream)); };
  for (const auto& grad : grads) {
    if (partials.count == kGradStatsFinish) {
      launch();
      partials.begin[0] = partials.begin[partials.count];
      partials.first += partials.count;
      partials.count = 0;
    }
    partials.begin[partials.count + 1] =
        partials.begin[partials.count] + static_cast<int32_t>(num_chunks(grad));
    ++partials.count;
  }
  launch();
}

GradStatsOpResult grad_stats_cuda(at::TensorList grads) {
  const c10::cuda::CUDAGuard guard(grads[0].device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  // Kept to the end: a copy of a gradient with gaps must live until its kernel is enqueued.
  std::vector<at::Tensor> dense;
  int64_t chunks = 0;
  for (const auto& grad : grads) {
    dense.push_back(grad.is_non_overlapping_and_dense() ? grad : grad.contiguous());
    chunks += num_chunks(grad);
  }
  const auto count = static_cast<int64_t>(grads.size());
  const auto bytes = grads[0].options().dtype(at::kByte);
  const auto doubles = grads[0].options().dtype(at::kDouble);
  at::Tensor nonfinite = at::empty({count}, bytes);
  at::Tensor sum_squares = at::empty({count}, doubles);
  const at::Tensor partial_sums = at::empty({chunks}, doubles);
  const at::Tensor partial_flags = at::empty({chunks}, bytes);
  at::Tensor found_inf = at::empty({}, grads[0].options().dtype(at::kFloat));
  at::Tensor norm = at::empty({}, doubles);

  sum_chunks(dense, partial_sums.mutable_data_ptr<double>(), partial_flags.mutable_data_ptr<uint8_t>(),
             stream);
  GradStatsPartials partials{};
  partials.sums = partial_sums.const_data_ptr<double>();
  partials.flags = partial_flags.const_data_ptr<uint8_t>();
  finish(dense, partials,
         {nonfinite.mutable_data_ptr<uint8_t>(), sum_squares.mutable_data_ptr<double>(),
          found_inf.mutable_data_ptr<float>(), norm.mutable_data_ptr<double>(), static_cast<int32_t>(count)},
         stream);
  return {nonfinite, sum_squares, found_inf, norm};
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) { library.impl("grad_stats", &grad_stats_cuda); }

}  // namespace ampctl::kernels
