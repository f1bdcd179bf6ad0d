// Tensors that a script of tests/reference computed with PyTorch.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "checkpoint/safetensors.h"
#include "support/process.h"

namespace ampctl::test {

/// Ten times what the longest script takes on two idle cores.
inline constexpr std::chrono::minutes kReferenceTimeout{15};

/// Runs tests/reference/SCRIPT with the arguments; throws with its standard error when it fails.
inline void run_reference(const std::string& script, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{python(), (source_dir() / "tests" / "reference" / script).string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto result = run(command, {}, kReferenceTimeout);
  if (result.exit_code != 0) throw std::runtime_error(script + " failed: " + result.err);
}

inline at::ScalarType scalar_type(const std::string& dtype) {
  static const std::map<std::string, at::ScalarType> types{
      {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16},
      {"I64", at::kLong},   {"I32", at::kInt},   {"U8", at::kByte},  {"BOOL", at::kBool}};
  return types.at(dtype);
}

using Tensors = std::map<std::string, at::Tensor>;

inline Tensors read_tensors(const std::filesystem::path& path) {
  const checkpoint::SafetensorsFile file(path);
  Tensors tensors;
  for (const auto& [name, info] : file.tensors()) {
    at::Tensor tensor = at::empty(info.shape, scalar_type(info.dtype));
    if (info.bytes > 0) file.read(info, tensor.data_ptr());
    tensors.emplace(name, tensor);
  }
  return tensors;
}

/// ||a - b|| / ||b|| in float64; 0 for equal tensors, also when both are all zeros.
inline double relative_l2(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor expected = b.detach().to(at::kCPU, at::kDouble);
  const auto difference = (a.detach().to(at::kCPU, at::kDouble) - expected).norm().item<double>();
  return difference == 0.0 ? 0.0 : difference / expected.norm().item<double>();
}

}  // namespace ampctl::test
