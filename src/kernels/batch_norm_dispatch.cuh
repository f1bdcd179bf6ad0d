// From values known at run time to the template arguments of the batch norm kernels. C++17.
#pragma once

#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/batch_norm_kernel.h"

namespace ampctl::kernels {

template <typename T>
struct TypeTag {
  using Type = T;
};

template <typename Call>
void with_type(BatchNormType type, Call call) {
  switch (type) {
    case BatchNormType::float32:
      return call(TypeTag<float>{});
    case BatchNormType::float16:
      return call(TypeTag<__half>{});
    case BatchNormType::bfloat16:
      return call(TypeTag<__nv_bfloat16>{});
  }
}

template <BatchNormForm kForm>
using FormTag = std::integral_constant<BatchNormForm, kForm>;

template <typename Call>
void with_form(BatchNormForm form, Call call) {
  switch (form) {
    case BatchNormForm::plain:
      return call(FormTag<BatchNormForm::plain>{});
    case BatchNormForm::relu:
      return call(FormTag<BatchNormForm::relu>{});
    case BatchNormForm::add_relu:
      return call(FormTag<BatchNormForm::add_relu>{});
  }
}

/// Too little for a thread to take several packs: all of them are better spread over the device.
inline bool is_small(const BatchNormShape& shape) {
  constexpr int64_t kPacksPerMultiprocessor = 4096;
  return shape.rows * (shape.channels / kBatchNormPack) < shape.multiprocessors * kPacksPerMultiprocessor;
}

}  // namespace ampctl::kernels
