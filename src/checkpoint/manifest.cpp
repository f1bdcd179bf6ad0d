#include "checkpoint/manifest.h"

#include <limits>
#include <set>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"
#include "checkpoint/safetensors_header.h"

namespace ampctl::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kMaxManifestBytes = uint64_t{4} << 20;
constexpr int kMaxDepth = 4;
constexpr const char* kCrcKey = "crc32";

// The checksum is over the values, not the layout: a reformatted manifest stays valid.
std::string own_crc(json document) {
  document.erase(kCrcKey);
  const std::string text = document.dump();
  Crc32 crc;
  crc.update(text.data(), text.size());
  return crc32_text(crc.value());
}

json parse(const std::string& text) {
  const auto bounded = [](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) throw std::runtime_error("it is nested too deeply");
    return true;
  };
  try {
    json document = json::parse(text, bounded);
    if (!document.is_object()) throw std::runtime_error("it is no JSON object");
    return document;
  } catch (const json::parse_error& error) {
    throw std::runtime_error("it is not valid JSON at byte " + std::to_string(error.byte));
  } catch (const json::out_of_range&) {
    throw std::runtime_error("it holds a number that no computer has room for");
  }
}

const json& field(const json& object, const char* key, bool right_type(const json&), const char* type) {
  const auto found = object.find(key);
  if (found == object.end()) throw std::runtime_error(std::string("'") + key + "' is missing");
  if (!right_type(*found)) throw std::runtime_error(std::string("'") + key + "' is not " + type);
  return *found;
}

uint64_t count(const json& object, const char* key) {
  const json& value = field(
      object, key, [](const json& j) { return j.is_number_unsigned(); }, "a whole number from 0");
  return value.get<uint64_t>();
}

int64_t step_count(const json& object, const char* key) {
  const uint64_t value = count(object, key);
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw std::runtime_error(std::string("'") + key + "' is too large");
  }
  return static_cast<int64_t>(value);
}

std::string text(const json& object, const char* key) {
  return field(
             object, key, [](const json& j) { return j.is_string(); }, "text")
      .get<std::string>();
}

uint32_t crc(const json& object) {
  const std::string digits = text(object, kCrcKey);
  const bool hexadecimal =
      digits.size() == 8 && digits.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hexadecimal) throw std::runtime_error("'crc32' is not eight hexadecimal digits");
  constexpr int kHexadecimal = 16;
  return static_cast<uint32_t>(std::stoul(digits, nullptr, kHexadecimal));
}

std::vector<ManifestFile> files(const json& document) {
  std::vector<ManifestFile> result;
  std::set<std::string> names;
  for (const json& entry : field(
           document, "files", [](const json& j) { return j.is_array(); }, "a list")) {
    if (!entry.is_object()) throw std::runtime_error("an entry of 'files' is no object");
    ManifestFile file{text(entry, "name"), {count(entry, "size"), crc(entry)}};
    if (!is_plain_name(file.name) || file.name == kManifestFile || !names.insert(file.name).second) {
      throw std::runtime_error("the file name '" + shown(file.name) + "' is not allowed or appears twice");
    }
    result.push_back(std::move(file));
  }
  return result;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  json document{{"format_version", manifest.format_version},
                {"step", manifest.step},
                {"program_version", manifest.program_version},
                {"files", json::array()}};
  for (const auto& file : manifest.files) {
    document["files"].push_back(
        {{"name", file.name}, {"size", file.digest.bytes}, {kCrcKey, crc32_text(file.digest.crc32)}});
  }
  document[kCrcKey] = own_crc(document);
  constexpr int kIndent = 2;
  return document.dump(kIndent) + "\n";
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestFile;
  std::error_code ignored;
  if (fs::is_directory(folder, ignored) && !fs::exists(path, ignored)) {
    throw environment_error("'" + folder.string() + "' is not a complete checkpoint: it has no " +
                            kManifestFile + ", which is written last: use another one");
  }
  const std::string content = read_text_file(path, kMaxManifestBytes);
  try {
    const json document = parse(content);
    Manifest manifest;
    manifest.format_version = step_count(document, "format_version");
    const bool intact = document.contains(kCrcKey) && document[kCrcKey] == own_crc(document);
    if (manifest.format_version > kFormatVersion) {
      const std::string message = "'" + folder.string() + "' was written by format " +
                                  std::to_string(manifest.format_version) + ", this program reads up to " +
                                  std::to_string(kFormatVersion) + ": update ampctl";
      if (intact) throw NewerFormatError(ErrorKind::environment, message);
      throw environment_error(message);
    }
    if (!intact) throw std::runtime_error("its own checksum does not match");
    if (manifest.format_version < 1) throw std::runtime_error("'format_version' is 0");
    manifest.step = step_count(document, "step");
    manifest.program_version = text(document, "program_version");
    manifest.files = files(document);
    return manifest;
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw damaged(path, error.what());
  }
}

Error damaged(const fs::path& path, const std::string& what) {
  return environment_error("'" + path.string() + "' is damaged: " + what + ": use another checkpoint");
}

}  // namespace ampctl::checkpoint
