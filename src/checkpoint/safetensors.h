// The safetensors file format, without torch: an 8-byte little-endian header length, a JSON header, then the
// tensors' bytes. Source: https://huggingface.co/docs/safetensors (format page).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/file.h"

namespace ampctl::checkpoint {

/// A tensor by reference: contiguous, little-endian, in host memory. `data` must outlive the write.
struct TensorRef {
  std::string name;
  std::string dtype;  ///< safetensors' names: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL
  std::vector<int64_t> shape;
  const void* data = nullptr;  ///< may be null where `bytes` is 0
  uint64_t bytes = 0;
};

/// A tensor in an opened file; `data` points into the file's mapping, aligned to the element's size.
struct TensorInfo {
  std::string dtype;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
};

using Metadata = std::map<std::string, std::string>;

/// Bytes of one element of a safetensors dtype. Throws an internal error for an unknown name.
uint64_t element_size(const std::string& dtype);

/// Writes a new file, durably but for its name (sync_folder), streaming the tensors' bytes from where they
/// are. Tensors are laid out by falling element size, then by name, so that equal content gives equal bytes
/// and every tensor is aligned. Returns size and CRC-32. Throws environment errors (disk full, permission),
/// and internal ones for contradicting input (shape and bytes, a name twice).
FileDigest write_safetensors(const std::filesystem::path& path, const std::vector<TensorRef>& tensors,
                             const Metadata& metadata = {});

/// A file opened for reading. Everything is checked against the file's size before it is used (hostile files
/// end in an environment error naming the file, in bounded memory and time).
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }

  /// Copies a tensor of tensors() to `destination` (its `bytes`) through read(2). A file that is truncated
  /// by someone else meanwhile is an environment error here, where touching `data` would raise SIGBUS.
  void read(const TensorInfo& tensor, void* destination) const;

 private:
  std::filesystem::path path_;
  OpenedFile file_;
  FileMapping mapping_;
  std::map<std::string, TensorInfo> tensors_;
  Metadata metadata_;
};

}  // namespace ampctl::checkpoint
