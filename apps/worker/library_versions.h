// Versions of the libraries that this process runs with.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace ampctl::worker {

/// {"libtorch", "cuda_built", "cudnn", "nccl"}: texts such as "9.19.0"; null where there is none.
[[nodiscard]] nlohmann::ordered_json library_versions();

/// CUDA's number as people write it: 13000 is "13.0".
[[nodiscard]] std::string cuda_version_text(long number);

}  // namespace ampctl::worker
