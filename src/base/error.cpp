#include "base/error.h"

namespace ampctl {

ExitCode exit_code(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::usage:
      return kExitUsage;
    case ErrorKind::environment:
      return kExitEnvironment;
    case ErrorKind::diverged:
      return kExitDiverged;
    case ErrorKind::peer:
      return kExitPeer;
    case ErrorKind::internal:
      break;
  }
  return kExitInternal;
}

}  // namespace ampctl
