#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/format.h"

namespace ampctl::checkpoint {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, uint64_t>, 10> kElementSizes{{
    {"F64", 8},
    {"I64", 8},
    {"F32", 4},
    {"I32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"I16", 2},
    {"I8", 1},
    {"U8", 1},
    {"BOOL", 1},
}};
constexpr size_t kMaxShown = 100;

// Events of the JSON parser: nothing is built that the grammar does not allow, so that depth and memory
// stay bounded by the header's own size.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  Header header;

  bool null() override { return unexpected("null"); }
  bool boolean(bool /*value*/) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t /*value*/) override { return unexpected("a negative number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return unexpected("a number that is no whole number of 64 bits");
  }
  bool binary(binary_t& /*value*/) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) return unexpected("a number");
    if (place_ == Place::offsets) {
      if (offsets_ == 2) fail("'data_offsets' has more than two numbers");
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
      return true;
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) fail("a dimension is too large");
    if (entry_.shape.size() == kMaxDimensions) {
      fail("more than " + std::to_string(kMaxDimensions) + " dimensions");
    }
    entry_.shape.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      if (!header.metadata.emplace(key_, std::move(value)).second) fail("a key twice: '" + shown(key_) + "'");
      return true;
    }
    if (place_ != Place::tensor || key_ != "dtype") return unexpected("text");
    entry_.dtype = std::move(value);
    return true;
  }

  bool start_object(std::size_t /*elements*/) override {
    if (place_ == Place::start) {
      place_ = Place::root;
    } else if (place_ == Place::root && key_ == kMetadataKey) {
      if (std::exchange(metadata_seen_, true)) fail("'__metadata__' appears twice");
      place_ = Place::metadata;
    } else if (place_ == Place::root) {
      name_ = key_;
      entry_ = {};
      seen_.clear();
      place_ = Place::tensor;
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (place_ == Place::tensor) {
      if (value != "dtype" && value != "shape" && value != "data_offsets") {
        fail("unknown key '" + shown(value) + "'");
      }
      if (std::find(seen_.begin(), seen_.end(), value) != seen_.end()) fail("'" + value + "' appears twice");
      seen_.push_back(value);
    }
    key_ = std::move(value);
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      if (seen_.size() != 3) fail("one of 'dtype', 'shape' and 'data_offsets' is missing");
      if (!header.tensors.emplace(name_, std::move(entry_)).second) fail("this name appears twice");
      place_ = Place::root;
    } else if (place_ == Place::metadata) {
      place_ = Place::root;
    } else {
      place_ = Place::done;
    }
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (place_ != Place::tensor || key_ == "dtype") return unexpected("a list");
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    offsets_ = 0;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_ != 2) fail("'data_offsets' needs two numbers");
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/, const json::exception&) override {
    throw std::runtime_error("its header is not valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place { start, root, metadata, tensor, shape, offsets, done };

  [[noreturn]] void fail(const std::string& what) const {
    const bool in_tensor = place_ == Place::tensor || place_ == Place::shape || place_ == Place::offsets;
    throw std::runtime_error("its header is wrong" +
                             (in_tensor ? " at tensor '" + shown(name_) + "'" : std::string()) + ": " + what);
  }

  bool unexpected(const std::string& what) const {
    const bool keyed = place_ != Place::start && place_ != Place::done;
    fail(what + " is not expected" + (keyed ? " at '" + shown(key_) + "'" : std::string()));
  }

  Place place_ = Place::start;
  std::string key_;
  std::string name_;
  HeaderEntry entry_;
  std::vector<std::string> seen_;
  int offsets_ = 0;
  bool metadata_seen_ = false;
};

[[noreturn]] void reject(const std::string& name, const std::string& what) {
  throw std::runtime_error("tensor '" + shown(name) + "' " + what);
}

}  // namespace

std::string shown(std::string_view name) {
  std::string text = printable(name.substr(0, kMaxShown));
  std::replace(text.begin(), text.end(), '\n', '?');
  return name.size() > kMaxShown ? text + "..." : text;
}

std::optional<uint64_t> find_element_size(std::string_view dtype) {
  for (const auto& [name, bytes] : kElementSizes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

uint64_t element_size(const std::string& dtype) {
  const auto bytes = find_element_size(dtype);
  if (!bytes) throw Error(ErrorKind::internal, "'" + dtype + "' is not a safetensors dtype known here");
  return *bytes;
}

std::optional<uint64_t> tensor_bytes(const std::vector<int64_t>& shape, uint64_t element_bytes) {
  // Strides of an empty tensor count its zero dimensions as one, so these products must fit as well.
  auto product = static_cast<int64_t>(element_bytes);
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    empty = empty || size == 0;
    if (__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product)) return std::nullopt;
  }
  return empty ? 0 : static_cast<uint64_t>(product);
}

Header parse_header(std::string_view text) {
  // The reference implementation demands the brace first as well; spaces may only pad the end.
  if (text.empty() || text.front() != '{') throw std::runtime_error("its header does not start with '{'");
  HeaderReader reader;
  json::sax_parse(text.begin(), text.end(), &reader);
  return std::move(reader.header);
}

void check_layout(const Header& header, uint64_t data_offset, uint64_t data_bytes) {
  std::vector<const std::pair<const std::string, HeaderEntry>*> order;
  order.reserve(header.tensors.size());
  for (const auto& tensor : header.tensors) {
    const auto& [name, entry] = tensor;
    const auto element = find_element_size(entry.dtype);
    if (!element) reject(name, "has dtype '" + shown(entry.dtype) + "', which this program does not read");
    const auto bytes = tensor_bytes(entry.shape, *element);
    if (!bytes) reject(name, "has a shape whose size overflows 64 bits");
    if (entry.begin > entry.end || entry.end > data_bytes) {
      reject(name, "lies at bytes " + std::to_string(entry.begin) + " to " + std::to_string(entry.end) +
                       " of " + std::to_string(data_bytes) +
                       ": the file was cut short or its header is wrong");
    }
    if (*bytes != entry.end - entry.begin) {
      reject(name, "has " + std::to_string(entry.end - entry.begin) +
                       " bytes where its shape and dtype need " + std::to_string(*bytes));
    }
    if ((data_offset + entry.begin) % *element != 0) {
      reject(name, "starts at byte " + std::to_string(data_offset + entry.begin) +
                       ", which is no multiple of its element's " + std::to_string(*element) +
                       " bytes: save the file again with a current safetensors library");
    }
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  uint64_t filled = 0;
  for (const auto* tensor : order) {
    if (tensor->second.begin != filled) {
      reject(tensor->first, (tensor->second.begin < filled ? "overlaps another one at byte "
                                                           : "leaves a gap before it at byte ") +
                                std::to_string(tensor->second.begin));
    }
    filled = tensor->second.end;
  }
  if (filled != data_bytes) {
    throw std::runtime_error("its tensors end at byte " + std::to_string(filled) + " of " +
                             std::to_string(data_bytes) + ": something was appended or the header is wrong");
  }
}

}  // namespace ampctl::checkpoint
