// What this machine calls itself.
#pragma once

#include <string>

namespace ampctl {

/// gethostname(2); "this host" where the system does not tell.
std::string host_name();

}  // namespace ampctl
