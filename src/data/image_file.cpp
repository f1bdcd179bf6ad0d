#include "data/image_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ampctl::data {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 30;
constexpr size_t kFirstRead = size_t{1} << 16;

class File {
 public:
  explicit File(const std::filesystem::path& path) : path_(path) {
    do {
      fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    } while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) fail("cannot be opened");
  }
  ~File() { close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  size_t size() {
    struct stat status {};
    if (fstat(fd_, &status) != 0) fail("cannot be read");
    return static_cast<size_t>(status.st_size);
  }

  /// 0 at the end.
  size_t read(uint8_t* into, size_t count) {
    ssize_t got = 0;
    do {
      got = ::read(fd_, into, count);
    } while (got < 0 && errno == EINTR);
    if (got < 0) fail("cannot be read");
    return static_cast<size_t>(got);
  }

 private:
  [[noreturn]] void fail(const char* what) {
    throw environment_error("image " + path_.string() + " " + what + ": " + std::strerror(errno) +
                            "; check that it is still there and readable");
  }

  const std::filesystem::path& path_;
  int fd_ = -1;
};

bool begins_with(const std::vector<uint8_t>& bytes, std::initializer_list<uint8_t> magic) {
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

}  // namespace

std::vector<uint8_t> read_image_file(const std::filesystem::path& path) {
  File file(path);
  const auto check = [&](size_t size) {
    if (size > kMaxFileBytes) {
      throw DamagedSample("image " + path.string() + ": is larger than " + std::to_string(kMaxFileBytes) +
                          " bytes, which no image accepted here can be");
    }
  };
  const size_t size_on_disk = file.size();
  check(size_on_disk);
  // One byte more than expected, so that the end is seen without growing the buffer.
  std::vector<uint8_t> bytes(size_on_disk > 0 ? size_on_disk + 1 : kFirstRead);
  size_t have = 0;
  while (const size_t got = file.read(bytes.data() + have, bytes.size() - have)) {
    have += got;
    check(have);
    if (have == bytes.size()) bytes.resize(2 * bytes.size());
  }
  bytes.resize(have);
  return bytes;
}

std::unique_ptr<ImageReader> open_image(std::vector<uint8_t> bytes, const std::string& name) {
  if (begins_with(bytes, {0xFF, 0xD8, 0xFF})) return open_jpeg(std::move(bytes), name);
  if (begins_with(bytes, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'})) {
    return open_png(std::move(bytes), name);
  }
  throw DamagedSample("image " + name +
                      (bytes.empty() ? ": is empty" : ": expected a JPEG or PNG file, found other content"));
}

void check_image_size(int64_t height, int64_t width, const std::string& name) {
  if (height < 1 || width < 1) throw DamagedSample("image " + name + ": has no pixels");
  if (height > kMaxImagePixels / width) {
    throw DamagedSample("image " + name + ": " + std::to_string(width) + "x" + std::to_string(height) +
                        " pixels, more than the " + std::to_string(kMaxImagePixels) +
                        " allowed; it looks like a decompression bomb");
  }
}

}  // namespace ampctl::data
