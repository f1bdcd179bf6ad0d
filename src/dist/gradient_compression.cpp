#include "dist/gradient_compression.h"

#include <utility>
#include <vector>

namespace ampctl::dist {

c10::intrusive_ptr<c10::ivalue::Future> BFloat16CompressHook::runHook(c10d::GradBucket& bucket) {
  // Hooks divide by the world size themselves. bfloat16 reaches as far as float32, so the order does not
  // matter.
  std::vector<at::Tensor> sent{bucket.getBufferRef().to(at::kBFloat16).div_(state_->getSize())};
  const auto reduced = state_->allreduce(sent)->getFuture();
  const auto copy_back = [buffer = bucket.getBufferRef()](c10::ivalue::Future& done) {
    buffer.copy_(done.value().toTensorVector().front());
    return c10::IValue(buffer);
  };
  return reduced->then(copy_back, reduced->elementType());
}

}  // namespace ampctl::dist
