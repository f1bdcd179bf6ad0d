#include "catalog/image_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace fs = std::filesystem;

namespace ampctl::catalog {
namespace {

constexpr std::array<std::string_view, 3> kSupported{".jpg", ".jpeg", ".png"};
// The rest of torchvision's IMG_EXTENSIONS: leaving these files out silently would change the data set.
constexpr std::array<std::string_view, 6> kUnsupported{".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};

std::string lower_extension(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {};
  std::string extension = name.substr(dot);
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

template <size_t N>
bool contains(const std::array<std::string_view, N>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

struct Listing {
  std::vector<std::string> folders;
  std::vector<std::string> others;
};

Listing list_folder(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  Listing listing;
  while (!error && entries != fs::directory_iterator()) {
    std::error_code broken_link;
    const bool is_folder = entries->is_directory(broken_link);
    (is_folder ? listing.folders : listing.others).push_back(entries->path().filename().string());
    entries.increment(error);
  }
  if (error) {
    throw environment_error("cannot read the folder " + folder.string() + ": " + error.message() +
                            "; check its permissions");
  }
  std::sort(listing.folders.begin(), listing.folders.end());
  std::sort(listing.others.begin(), listing.others.end());
  return listing;
}

/// One class folder, walked as os.walk(followlinks=True) does.
class ClassWalk {
 public:
  explicit ClassWalk(const fs::path& root) : root_(root) {}

  /// (folder, its image files) pairs sorted by the folder's whole path, as sorted(os.walk(...)) is.
  std::vector<std::pair<std::string, std::vector<std::string>>> walk(const std::string& class_name) {
    visit(class_name);
    std::sort(found_.begin(), found_.end());
    return std::move(found_);
  }

 private:
  void visit(const std::string& relative) {
    const fs::path folder = root_ / relative;
    const bool loops = std::any_of(above_.begin(), above_.end(), [&](const fs::path& parent) {
      std::error_code error;
      return fs::equivalent(parent, folder, error);
    });
    if (loops) {
      throw environment_error(folder.string() + " is a link to a folder that contains it; remove the link");
    }
    above_.push_back(folder);
    Listing listing = list_folder(folder);
    std::vector<std::string> images;
    for (auto& name : listing.others) {
      const std::string extension = lower_extension(name);
      if (contains(kUnsupported, extension)) {
        throw environment_error((folder / name).string() + ": images of type " + extension +
                                " cannot be read (only .jpg, .jpeg and .png); convert or remove them");
      }
      if (contains(kSupported, extension)) images.push_back(std::move(name));
    }
    found_.emplace_back(relative, std::move(images));
    for (const auto& name : listing.folders) visit(relative + "/" + name);
    above_.pop_back();
  }

  const fs::path& root_;
  std::vector<fs::path> above_;
  std::vector<std::pair<std::string, std::vector<std::string>>> found_;
};

std::string join(const std::vector<std::string>& words, size_t at_most) {
  std::string text;
  for (size_t i = 0; i < words.size() && i < at_most; ++i) text += (i == 0 ? "" : ", ") + words[i];
  if (words.size() > at_most) text += " and " + std::to_string(words.size() - at_most) + " more";
  return text;
}

}  // namespace

ImageFolder scan_image_folder(const fs::path& root) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (!fs::is_directory(status)) {
    const bool missing = status.type() == fs::file_type::not_found;
    throw environment_error("image folder " + root.string() + ": expected a folder with a folder a class, " +
                            (missing ? "but it does not exist"
                             : error ? "but it cannot be opened: " + error.message()
                                     : "but it is not a folder") +
                            "; check the path in the data section");
  }

  ImageFolder result;
  result.classes = list_folder(root).folders;
  if (result.classes.empty()) {
    throw environment_error("image folder " + root.string() +
                            ": expected a folder a class, found no folder in it; images belong into "
                            "<root>/<class>/<name>.jpg");
  }
  std::vector<std::string> empty_classes;
  for (size_t c = 0; c < result.classes.size(); ++c) {
    const size_t before = result.files.size();
    for (const auto& [folder, images] : ClassWalk(root).walk(result.classes[c])) {
      for (const auto& image : images) result.files.push_back(folder + "/" + image);
    }
    if (result.files.size() == before) empty_classes.push_back(result.classes[c]);
    result.targets.resize(result.files.size(), static_cast<int64_t>(c));
  }
  if (!empty_classes.empty()) {
    constexpr size_t kNamed = 5;
    throw environment_error("image folder " + root.string() + ": no image (.jpg, .jpeg, .png) for class " +
                            join(empty_classes, kNamed) + "; add images or remove the empty folder");
  }
  return result;
}

}  // namespace ampctl::catalog
