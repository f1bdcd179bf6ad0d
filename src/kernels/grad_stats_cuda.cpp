#include <optional>
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

struct Partials {
  double* sums;
  uint8_t* flags;
};

// Collects chunks until a launch is full.
class ChunkLauncher {
 public:
  ChunkLauncher(Partials partials, cudaStream_t stream) : partials_(partials), stream_(stream) {}

  void add(const at::Tensor& grad) {
    const int64_t chunks = num_chunks(grad);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (chunks_.blocks == kGradStatsBlocks || (chunk == 0 && tensors_ == kGradStatsTensors)) launch();
      if (chunk == 0 || tensors_ == 0) push_tensor(grad);
      chunks_.block_tensor[chunks_.blocks] = static_cast<uint8_t>(tensors_ - 1);
      chunks_.block_chunk[chunks_.blocks] = static_cast<int32_t>(chunk);
      ++chunks_.blocks;
    }
  }

  void launch() {
    if (chunks_.blocks == 0) return;
    C10_CUDA_CHECK(launch_grad_stats_chunks(chunks_, partials_.sums, partials_.flags, stream_));
    partials_.sums += chunks_.blocks;
    partials_.flags += chunks_.blocks;
    chunks_.blocks = 0;
    tensors_ = 0;
  }

 private:
  void push_tensor(const at::Tensor& grad) {
    chunks_.data[tensors_] = grad.const_data_ptr();
    chunks_.numel[tensors_] = grad.numel();
    chunks_.type[tensors_] = grad_type(grad.scalar_type());
    ++tensors_;
  }

  GradStatsChunks chunks_{};
  int tensors_ = 0;
  Partials partials_;
  cudaStream_t stream_;
};

void finish(const std::vector<at::Tensor>& grads, Partials partials, const float* inv_scale,
            uint8_t* nonfinite, double* sum_squares, cudaStream_t stream) {
  GradStatsTensors tensors{};
  const auto launch = [&] {
    if (tensors.tensors == 0) return;
    C10_CUDA_CHECK(launch_grad_stats_finish(tensors, partials.sums, partials.flags, inv_scale, nonfinite,
                                            sum_squares, stream));
    nonfinite += tensors.tensors;
    sum_squares += tensors.tensors;
    tensors.begin[0] = tensors.begin[tensors.tensors];
    tensors.tensors = 0;
  };
  for (const auto& grad : grads) {
    if (tensors.tensors == kGradStatsFinish) launch();
    tensors.begin[tensors.tensors + 1] =
        tensors.begin[tensors.tensors] + static_cast<int32_t>(num_chunks(grad));
    ++tensors.tensors;
  }
  launch();
}

std::tuple<at::Tensor, at::Tensor> grad_stats_cuda(at::TensorList grads,
                                                   const std::optional<at::Tensor>& inv_scale) {
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
  const Partials partials{partial_sums.mutable_data_ptr<double>(), partial_flags.mutable_data_ptr<uint8_t>()};

  ChunkLauncher launcher(partials, stream);
  for (const auto& grad : dense) launcher.add(grad);
  launcher.launch();
  finish(dense, partials, inv_scale ? inv_scale->const_data_ptr<float>() : nullptr,
         nonfinite.mutable_data_ptr<uint8_t>(), sum_squares.mutable_data_ptr<double>(), stream);
  return {nonfinite, sum_squares};
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) { library.impl("grad_stats", &grad_stats_cuda); }

}  // namespace ampctl::kernels
