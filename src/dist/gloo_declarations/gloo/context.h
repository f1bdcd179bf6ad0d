// Stands in for Gloo's header; see README.md of this folder.
#pragma once

#include <chrono>

#include <gloo/transport/unbound_buffer.h>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
