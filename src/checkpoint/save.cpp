#include <cerrno>
#include <set>
#include <utility>

#include <unistd.h>

#include "base/durable_file.h"
#include "base/version.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/temporary_folder.h"

namespace ampctl::checkpoint {
namespace {

namespace fs = std::filesystem;

void check_parts(int64_t step, const std::vector<FilePart>& parts) {
  if (step < 0) throw Error(ErrorKind::internal, "a checkpoint's step is negative: " + std::to_string(step));
  std::set<std::string> names{kManifestFile};
  for (const auto& part : parts) {
    if (!is_plain_name(part.name) || !names.insert(part.name).second) {
      throw Error(ErrorKind::internal,
                  "a checkpoint cannot hold a file '" + part.name + "', or holds it twice");
    }
  }
}

FileDigest write_text(const fs::path& path, const std::string& text) {
  DurableFile file(path, text.size());
  file.write(text.data(), text.size());
  return file.finish();
}

void write_parts(const TemporaryFolder& folder, int64_t step, const std::vector<FilePart>& parts) {
  Manifest manifest{kFormatVersion, step, kVersion, {}};
  for (const auto& part : parts) {
    const fs::path path = folder.path() / part.name;
    const FileDigest digest = part.text.empty() ? write_safetensors(path, part.tensors, part.metadata)
                                                : write_text(path, part.text);
    manifest.files.push_back({part.name, digest});
  }
  // The manifest must not be found without what it names.
  sync_folder(folder.path());
  write_text(folder.path() / kManifestFile, manifest_text(manifest));
  sync_folder(folder.path());
}

}  // namespace

fs::path save(const fs::path& checkpoints, int64_t step, const std::vector<FilePart>& parts) {
  check_parts(step, parts);
  bool published = false;
  try {
    make_folders(checkpoints);
    clean_leftovers(checkpoints);
    TemporaryFolder folder(checkpoints, step);
    write_parts(folder, step, parts);
    fs::path path = folder.publish();
    published = true;
    folder.remove_replaced();
    return path;
  } catch (const Error& error) {
    throw Error(error.kind(), "the checkpoint of step " + std::to_string(step) +
                                  (published ? " was saved, but the one it replaced was not removed: "
                                             : " was not saved (older ones are untouched): ") +
                                  error.what());
  }
}

void point(const fs::path& checkpoints, const std::string& link, const fs::path& folder) {
  const fs::path target = folder.filename();
  if (!is_plain_name(link) || !is_plain_name(target.string())) {
    throw Error(ErrorKind::internal, "the link '" + link + "' cannot point at '" + folder.string() + "'");
  }
  const fs::path temporary = temporary_path(checkpoints, link);
  remove_tree(temporary);
  if (::symlink(target.c_str(), temporary.c_str()) != 0)
    throw file_error("create the link", temporary, errno);
  try {
    rename_path(temporary, checkpoints / link);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(checkpoints);
}

}  // namespace ampctl::checkpoint
