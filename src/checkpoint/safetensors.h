// The safetensors file format, without torch: an 8-byte little-endian header length, a JSON header, then the
// tensors' bytes. Source: https://huggingface.co/docs/safetensors (format page).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ampctl::checkpoint {

/// A tensor by reference: contiguous, little-endian. `data` must outlive the write.
struct TensorRef {
  std::string name;
  std::string dtype;  ///< safetensors' names: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL
  std::vector<int64_t> shape;
  const void* data = nullptr;
  uint64_t bytes = 0;
};

/// A tensor in an opened file; `data` points into the file's mapping.
struct TensorInfo {
  std::string dtype;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
};

using Metadata = std::map<std::string, std::string>;

/// Bytes of one element of a safetensors dtype. Throws an internal error for an unknown name.
uint64_t element_size(const std::string& dtype);

/// A file opened for reading. Everything is checked against the file's size before it is used (hostile files
/// end in an environment error naming the file, in bounded memory and time).
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  [[nodiscard]] const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }

 private:
  void* mapping_ = nullptr;
  uint64_t size_ = 0;
  std::map<std::string, TensorInfo> tensors_;
  Metadata metadata_;
};

}  // namespace ampctl::checkpoint
