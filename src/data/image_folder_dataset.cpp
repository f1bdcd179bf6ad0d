#include "data/image_folder_dataset.h"

#include "data/image_file.h"

namespace ampctl::data {

Sample ImageFolderDataset::get(int64_t index) const {
  const std::unique_ptr<ImageReader> reader = open(index);
  return {reader->decode({0, 0, reader->height(), reader->width()}),
          listing_.targets[static_cast<size_t>(index)]};
}

std::unique_ptr<ImageReader> ImageFolderDataset::open(int64_t index) const {
  const std::string file = sample_name(index);
  return open_image(read_image_file(file), file);
}

std::string ImageFolderDataset::sample_name(int64_t index) const {
  return (listing_.root / listing_.files[static_cast<size_t>(index)]).string();
}

}  // namespace ampctl::data
