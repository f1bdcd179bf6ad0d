#include "base/error.h"
#include "dist/process_groups.h"

namespace ampctl::dist {

c10::intrusive_ptr<c10d::ProcessGroup> make_nccl_group(const GroupOptions& /*options*/,
                                                       c10::Device /*device*/) {
  throw environment_error(
      "this build has no NCCL (it was configured without CUDA, or nccl.h was not found); configure it again "
      "with "
      "AMPCTL_CUDA=ON and the package nvidia-nccl-cu13 installed, or set distributed.backend: gloo");
}

}  // namespace ampctl::dist
