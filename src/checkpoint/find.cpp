#include <algorithm>
#include <map>
#include <system_error>

#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"

namespace ampctl::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;

std::string digest_difference(const FileDigest& expected, const FileDigest& found) {
  if (found.bytes != expected.bytes) {
    return "it has " + std::to_string(found.bytes) + " bytes where the manifest says " +
           std::to_string(expected.bytes);
  }
  return "its CRC-32 is " + crc32_text(found.crc32) + " where the manifest says " +
         crc32_text(expected.crc32);
}

void verify_file(const fs::path& path, const FileDigest& expected) {
  // The size first: it settles most cases without reading gigabytes.
  const uint64_t bytes = open_regular_file(path).size;
  const FileDigest found = bytes == expected.bytes ? digest_file(path) : FileDigest{bytes, 0};
  if (found.bytes != expected.bytes || found.crc32 != expected.crc32) {
    throw damaged(path, digest_difference(expected, found));
  }
}

// What readers would open by its name must be covered by a checksum.
void refuse_unlisted(const fs::path& folder, const Manifest& manifest) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const fs::path name = it->path().filename();
    const bool ours = name.extension() == ".safetensors" || name.extension() == ".json";
    const bool listed =
        name == kManifestFile || std::any_of(manifest.files.begin(), manifest.files.end(),
                                             [&](const ManifestFile& file) { return name == file.name; });
    if (ours && !listed) throw damaged(it->path(), "the manifest does not name it");
  }
  if (error) throw file_error("list", folder, error.value());
}

// The newest step first; a folder caught in the middle of its replacement stands in for its step.
std::map<int64_t, fs::path, std::greater<>> candidates(const fs::path& checkpoints) {
  std::map<int64_t, fs::path, std::greater<>> found;
  std::error_code error;
  for (fs::directory_iterator it(checkpoints, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const auto step = step_of(name_of_replaced(name).value_or(name));
    if (step) found.insert_or_assign(*step, existing_folder(checkpoints / folder_name(*step)));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw file_error("list", checkpoints, error.value());
  }
  return found;
}

std::optional<fs::path> newest(const fs::path& checkpoints,
                               const std::function<void(const std::string&)>& warn) {
  const auto folders = candidates(checkpoints);
  for (const auto& [step, folder] : folders) {
    try {
      verify(folder);
      return folder;
    } catch (const NewerFormatError&) {
      throw;
    } catch (const Error& error) {
      warn("the checkpoint of step " + std::to_string(step) + " cannot be used: " + error.what());
    }
  }
  if (folders.empty()) return std::nullopt;
  throw environment_error("none of the " + std::to_string(folders.size()) + " checkpoints in '" +
                          checkpoints.string() +
                          "' can be used: move them away to start anew, or resume from another path");
}

fs::path linked(const fs::path& checkpoints, const std::string& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(checkpoints / link, error);
  if (error) {
    throw environment_error("there is no '" + link + "' checkpoint in '" + checkpoints.string() +
                            "': resume from 'latest' or from a path");
  }
  return existing_folder(checkpoints / target);
}

}  // namespace

void verify(const fs::path& folder) {
  const Manifest manifest = read_manifest(folder);
  const auto named_step = step_of(folder.filename().string());
  if (named_step && *named_step != manifest.step) {
    throw damaged(folder / kManifestFile, "it is of step " + std::to_string(manifest.step));
  }
  for (const auto& file : manifest.files) verify_file(folder / file.name, file.digest);
  refuse_unlisted(folder, manifest);
}

std::optional<fs::path> find(const fs::path& checkpoints, const std::string& resume,
                             const std::function<void(const std::string&)>& warn) {
  if (resume == "never") return std::nullopt;
  if (resume == "auto") return newest(checkpoints, warn);
  if (resume == kLatestLink) {
    if (auto folder = newest(checkpoints, warn)) return folder;
    throw environment_error("there is no checkpoint in '" + checkpoints.string() +
                            "' to resume from: use 'auto' to start anew where there is none");
  }
  std::error_code ignored;
  fs::path folder = resume == kBestLink ? linked(checkpoints, resume) : existing_folder(resume);
  // A link such as checkpoints/latest is followed once, so that it may move on meanwhile.
  if (const fs::path real = fs::canonical(folder, ignored); !real.empty()) folder = real;
  verify(folder);
  return folder;
}

std::string read_text(const fs::path& folder, const std::string& name) {
  const Manifest manifest = read_manifest(folder);
  const auto file = std::find_if(manifest.files.begin(), manifest.files.end(),
                                 [&](const ManifestFile& entry) { return entry.name == name; });
  if (file == manifest.files.end()) throw damaged(folder / kManifestFile, "it names no file '" + name + "'");
  std::string text = read_text_file(folder / name, kMaxTextBytes);
  Crc32 crc;
  crc.update(text.data(), text.size());
  const FileDigest found{text.size(), crc.value()};
  if (found.bytes != file->digest.bytes || found.crc32 != file->digest.crc32) {
    throw damaged(folder / name, digest_difference(file->digest, found));
  }
  return text;
}

}  // namespace ampctl::checkpoint
