#include "failure.h"

#include <cstdio>

#include <c10/util/Exception.h>

#include "base/error.h"
#include "dist/peers.h"

namespace ampctl::worker {

Failure describe(const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return {exit_code(own->kind()), own->what()};
  if (const auto* memory = dynamic_cast<const c10::OutOfMemoryError*>(&error)) {
    return {kExitEnvironment,
            std::string("out of memory before the first step: ") + memory->what_without_backtrace()};
  }
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  return {dist::is_group_failure(error) ? kExitPeer : kExitInternal, text};
}

void say(const Failure& failure) { std::fprintf(stderr, "ampctl: error: %s\n", failure.message.c_str()); }

}  // namespace ampctl::worker
