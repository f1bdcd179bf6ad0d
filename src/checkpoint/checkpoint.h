// A checkpoint is a folder `step-00001000/` of safetensors and JSON files; `manifest.json`, written last,
// names every file with its size and checksum: no manifest, no checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace ampctl::checkpoint {

/// Version of the folder's format; a newer one is refused by name.
inline constexpr int kFormatVersion = 1;

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kManifestFile = "manifest.json";
std::string rank_file(int64_t rank);    ///< "rank-00000.safetensors"
std::string folder_name(int64_t step);  ///< "step-00001000"

/// One file of a checkpoint to be written: tensors, or text (JSON).
struct FilePart {
  std::string name;
  std::vector<TensorRef> tensors;
  Metadata metadata;
  std::string text;  ///< used when not empty
};

/// Writes `<checkpoints>/step-N` durably: temporary folder, every file fsynced, manifest last, rename, fsync
/// of the parent. Missing parents are created. An older folder of the same step is replaced only once the new
/// one is complete; leftovers of torn saves are removed. Leaves no temporary file behind on failure. Returns
/// the final path. Throws environment errors (disk full, permission).
std::filesystem::path save(const std::filesystem::path& checkpoints, int64_t step,
                           const std::vector<FilePart>& parts);

/// Points `<checkpoints>/latest` or `best` (a relative symbolic link, replaced atomically) at a folder.
void point(const std::filesystem::path& checkpoints, const std::string& link,
           const std::filesystem::path& folder);

/// Removes the oldest folders beyond `keep` (at least 1), never those that `latest` and `best` point at; also
/// removes leftovers of torn saves.
void retain(const std::filesystem::path& checkpoints, int64_t keep);

/// Removes every folder of a later step than `step`, which must exist, and points `latest` at it: a run that
/// goes on from an older checkpoint must not find its abandoned future again. `best` is removed with its
/// folder. Returns the steps removed, rising.
std::vector<int64_t> discard_newer(const std::filesystem::path& checkpoints, int64_t step);

/// Reads and verifies a folder: manifest, format version, sizes, checksums, and that no other .json or
/// .safetensors file lies in it. Throws an environment error that names the file and what is wrong.
void verify(const std::filesystem::path& folder);

/// What --resume asks for. `auto` and `latest`: the newest folder that verifies; each damaged one is reported
/// through `warn` and the next older used; no checkpoint there: nullopt for `auto`, an environment error for
/// `latest`. `best` and a path must exist and verify. `never`: nullopt.
/// An environment error as well: checkpoints are there but none is usable (starting anew would silently throw
/// a run away), and an intact newest one of a newer format.
std::optional<std::filesystem::path> find(const std::filesystem::path& checkpoints, const std::string& resume,
                                          const std::function<void(const std::string&)>& warn);

/// Steps with a complete-looking folder (a manifest exists), rising.
std::vector<int64_t> list(const std::filesystem::path& checkpoints);

/// The text of a small file (state.json), checked against the manifest.
std::string read_text(const std::filesystem::path& folder, const std::string& name);

}  // namespace ampctl::checkpoint
