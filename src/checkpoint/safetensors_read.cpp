#include <stdexcept>

#include "checkpoint/safetensors_header.h"

namespace ampctl::checkpoint {
namespace {

uint64_t little_endian(const unsigned char (&bytes)[kLengthBytes]) {
  uint64_t value = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) value |= uint64_t{bytes[i]} << (8 * i);
  return value;
}

uint64_t header_length(const OpenedFile& file, const std::filesystem::path& path) {
  if (file.size < kLengthBytes)
    throw std::runtime_error("it has only " + std::to_string(file.size) + " bytes");
  unsigned char bytes[kLengthBytes];
  read_exactly(file.fd, path, 0, bytes, kLengthBytes);
  const uint64_t length = little_endian(bytes);
  if (length > kMaxHeaderBytes) {
    throw std::runtime_error("its header claims " + std::to_string(length) + " bytes, more than the " +
                             std::to_string(kMaxHeaderBytes) + " that are allowed");
  }
  if (length > file.size - kLengthBytes) {
    throw std::runtime_error("its header claims " + std::to_string(length) + " bytes of " +
                             std::to_string(file.size) + ": the file was cut short");
  }
  return length;
}

}  // namespace

// Everything is decided on bytes that were read, not mapped: a file that shrinks meanwhile cannot crash this.
SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(open_regular_file(path)) {
  Header header;
  uint64_t data_offset = 0;
  try {
    std::string text(header_length(file_, path), '\0');
    read_exactly(file_.fd, path, kLengthBytes, text.data(), text.size());
    data_offset = kLengthBytes + text.size();
    header = parse_header(text);
    check_layout(header, data_offset, file_.size - data_offset);
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw environment_error("'" + path.string() + "' is not a sound safetensors file: " + error.what() +
                            ": use another copy");
  }
  mapping_ = FileMapping(file_, path);
  for (auto& [name, entry] : header.tensors) {
    TensorInfo info{std::move(entry.dtype), std::move(entry.shape),
                    mapping_.data() + data_offset + entry.begin, entry.end - entry.begin};
    tensors_.emplace_hint(tensors_.end(), name, std::move(info));
  }
  metadata_ = std::move(header.metadata);
}

void SafetensorsFile::read(const TensorInfo& tensor, void* destination) const {
  read_exactly(file_.fd, path_, static_cast<uint64_t>(tensor.data - mapping_.data()), destination,
               tensor.bytes);
}

}  // namespace ampctl::checkpoint
