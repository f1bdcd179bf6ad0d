#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/record_row_kernel.h"
#include "kernels/scalar_argument.h"

namespace ampctl::kernels {
namespace {

void record_row_cuda(at::Tensor& rows, at::Tensor& flags, at::Tensor& counts, at::TensorList values,
                     double last, const at::Tensor& nonfinite) {
  TORCH_CHECK(values.size() <= kRecordValues, "record_row_ takes up to ", kRecordValues, " values, got ",
              values.size());
  TORCH_CHECK(nonfinite.is_contiguous(), "record_row_ takes contiguous flags");
  const c10::cuda::CUDAGuard guard(rows.device());
  RecordRow row{};
  row.rows = rows.mutable_data_ptr<double>();
  row.flags = flags.mutable_data_ptr<uint8_t>();
  row.counts = counts.mutable_data_ptr<int64_t>();
  row.nonfinite = nonfinite.const_data_ptr<uint8_t>();
  row.capacity = rows.size(0);
  row.num_flags = flags.size(1);
  row.num_values = static_cast<int>(values.size());
  row.last = last;
  for (size_t i = 0; i < values.size(); ++i) {
    row.values[i] = scalar_argument(values[i], rows.device(), "record_row_");
  }
  C10_CUDA_CHECK(launch_record_row(row, c10::cuda::getCurrentCUDAStream()));
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) { library.impl("record_row_", &record_row_cuda); }

}  // namespace ampctl::kernels
