#include "base/host_name.h"

#include <array>

#include <unistd.h>

namespace ampctl {

std::string host_name() {
  constexpr size_t kLongestName = 256;  // HOST_NAME_MAX is 64 on Linux
  std::array<char, kLongestName> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

}  // namespace ampctl
