#include <algorithm>
#include <bit>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "checkpoint/safetensors_header.h"

namespace ampctl::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

using nlohmann::json;

[[noreturn]] void contradiction(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorKind::internal, "'" + path.string() + "' cannot be written: " + what);
}

std::vector<const TensorRef*> in_file_order(const std::filesystem::path& path,
                                            const std::vector<TensorRef>& tensors) {
  std::vector<std::pair<uint64_t, const TensorRef*>> sized;
  sized.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    const uint64_t element = element_size(tensor.dtype);
    if (tensor.name == kMetadataKey) contradiction(path, "a tensor may not be named '__metadata__'");
    if (tensor_bytes(tensor.shape, element) != tensor.bytes || tensor.shape.size() > kMaxDimensions ||
        (tensor.data == nullptr && tensor.bytes != 0)) {
      contradiction(path, "shape, bytes and data of tensor '" + tensor.name + "' disagree");
    }
    sized.emplace_back(element, &tensor);
  }
  std::sort(sized.begin(), sized.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->name < b.second->name;
  });
  std::vector<const TensorRef*> order;
  order.reserve(sized.size());
  for (const auto& [element, tensor] : sized) order.push_back(tensor);
  return order;
}

// The length, the JSON and the spaces that bring the data to a multiple of eight bytes.
std::string header_bytes(const std::filesystem::path& path, const std::vector<const TensorRef*>& order,
                         const Metadata& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  uint64_t offset = 0;
  for (const auto* tensor : order) {
    if (header.contains(tensor->name)) contradiction(path, "two tensors are named '" + tensor->name + "'");
    header[tensor->name] = {{"dtype", tensor->dtype},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, offset + tensor->bytes}}};
    offset += tensor->bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::type_error&) {
    contradiction(path, "a name or a metadata text is not UTF-8");
  }
  constexpr size_t kAlignment = 8;
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  if (text.size() > kMaxHeaderBytes) contradiction(path, "its header is larger than readers allow");
  std::string bytes;
  bytes.reserve(kLengthBytes + text.size());
  for (size_t i = 0; i < kLengthBytes; ++i)
    bytes += static_cast<char>((uint64_t{text.size()} >> (8 * i)) & 0xff);
  return bytes + text;
}

}  // namespace

FileDigest write_safetensors(const std::filesystem::path& path, const std::vector<TensorRef>& tensors,
                             const Metadata& metadata) {
  const auto order = in_file_order(path, tensors);
  const std::string header = header_bytes(path, order, metadata);
  uint64_t total = header.size();
  for (const auto* tensor : order) total += tensor->bytes;
  DurableFile file(path, total);
  file.write(header.data(), header.size());
  for (const auto* tensor : order) file.write(tensor->data, tensor->bytes);
  return file.finish();
}

}  // namespace ampctl::checkpoint
