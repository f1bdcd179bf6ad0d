#include "dist/gradient_average.h"

#include <vector>

namespace ampctl::dist {

c10::intrusive_ptr<c10::ivalue::Future> AverageHook::runHook(c10d::GradBucket& bucket) {
  std::vector<at::Tensor> buffers{bucket.getBufferRef()};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  return state_->allreduce(buffers, options)->getFuture();
}

}  // namespace ampctl::dist
