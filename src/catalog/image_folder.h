// Folders of images, one folder a class, under torchvision.datasets.ImageFolder's rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ampctl::catalog {

struct ImageFolder {
  std::vector<std::string> classes;  ///< folder names, sorted by bytes; a class's number is its place here
  std::vector<std::string> files;    ///< relative to the root, class by class, sorted as torchvision does
  std::vector<int64_t> targets;      ///< class of each file
};

/// Lists `root` without opening any image: class folders sorted, each walked recursively (symbolic links
/// followed), files ending in .jpg, .jpeg or .png in any case.
/// Throws environment errors: no such folder, not readable, no class folder, a class without images, an
/// image format that torchvision would read and this program cannot, a symbolic link back to a parent.
ImageFolder scan_image_folder(const std::filesystem::path& root);

}  // namespace ampctl::catalog
