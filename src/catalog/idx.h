// IDX files (the format of MNIST), plain or gzip, told apart by their content.
// Layout: bytes 0, 0, element type (8: unsigned byte), number of dimensions, then each dimension as a
// big-endian 32-bit number, then the elements.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "catalog/source.h"

namespace ampctl::catalog {

/// What a source is used for decides which of the usual file names are looked for.
enum class SourceRole {
  train,      ///< train-…, else images-…
  eval,       ///< t10k-…, test-…, else images-…
  train_eval  ///< split into both: the first found of train-…, images-…, t10k-…, test-…
};

struct IdxPaths {
  std::filesystem::path images;
  std::filesystem::path labels;
};

/// The files that the section names, or those in `path` with a usual name ("train-images-idx3-ubyte", also
/// with ".idx3-ubyte", each also with ".gz"). Throws an environment error listing the names looked for.
IdxPaths find_idx(const Source& source, SourceRole role);

/// Reads and checks the dimensions. `rank` is the number of dimensions expected. Throws environment errors:
/// not an IDX file, another element type or rank, no elements, more elements than the file can hold.
std::vector<int64_t> read_idx_dims(const std::filesystem::path& file, size_t rank);

struct IdxArray {
  std::vector<int64_t> dims;
  std::vector<uint8_t> values;
};

/// Reads the whole file. Memory is bounded by what the file really holds, whatever its header says. Throws
/// also when the file is shorter or longer than its header says.
IdxArray read_idx(const std::filesystem::path& file, size_t rank);

}  // namespace ampctl::catalog
