// The JSON header of a safetensors file: its grammar and the rules on shapes and offsets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"

namespace ampctl::checkpoint {

inline constexpr const char* kMetadataKey = "__metadata__";
inline constexpr uint64_t kLengthBytes = 8;  ///< the header's length, before it
/// The limit of the reference implementation as well.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
/// PyTorch's own limit on a tensor's dimensions in its iterators.
inline constexpr size_t kMaxDimensions = 64;

/// One tensor as the header describes it. Offsets are bytes from the end of the header.
struct HeaderEntry {
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct Header {
  std::map<std::string, HeaderEntry> tensors;
  Metadata metadata;
};

/// Size of an element, nullopt for a dtype that this program does not know.
std::optional<uint64_t> find_element_size(std::string_view dtype);

/// Bytes of a tensor of that shape; nullopt where a dimension is negative or the product overflows.
std::optional<uint64_t> tensor_bytes(const std::vector<int64_t>& shape, uint64_t element_bytes);

/// Reads the JSON text. Throws std::runtime_error saying what is wrong with it.
Header parse_header(std::string_view text);

/// Checks that dtypes are known, shapes agree with bytes, and that the tensors, aligned, fill the
/// `data_bytes` that start at `data_offset` of the file without gap or overlap. Throws std::runtime_error.
void check_layout(const Header& header, uint64_t data_offset, uint64_t data_bytes);

/// A name out of a file as messages show it: printable and short.
std::string shown(std::string_view name);

}  // namespace ampctl::checkpoint
