#include "base/utc_time.h"

#include <array>
#include <ctime>

namespace ampctl {

std::string utc_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, sizeof("2026-01-31T23:59:59Z")> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace ampctl
