// Stands in for Gloo's header; see README.md of this folder.
#pragma once

namespace gloo::transport {

class Device;

}  // namespace gloo::transport
