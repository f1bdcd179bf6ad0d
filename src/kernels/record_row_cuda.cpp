#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/record_row_kernel.h"

namespace ampctl::kernels {
namespace {

ValueType value_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return ValueType::float64;
    case at::kFloat:
      return ValueType::float32;
    case at::kLong:
      return ValueType::int64;
    case at::kInt:
      return ValueType::int32;
    case at::kBool:
      return ValueType::boolean;
    default:
      TORCH_CHECK(false, "record_row_ takes float64, float32, int64, int32 or bool, not ", dtype);
  }
}

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
    TORCH_CHECK(values[i].device() == rows.device(), "record_row_ takes values on ", rows.device(),
                ", got one on ", values[i].device());
    row.values[i] = values[i].const_data_ptr();
    row.types[i] = value_type(values[i].scalar_type());
  }
  C10_CUDA_CHECK(launch_record_row(row, c10::cuda::getCurrentCUDAStream()));
}

}  // namespace

TORCH_LIBRARY_IMPL(ampctl, CUDA, library) { library.impl("record_row_", &record_row_cuda); }

}  // namespace ampctl::kernels
