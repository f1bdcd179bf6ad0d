// PNG through libpng. Its errors come by longjmp, so every call into it stands in a function whose local
// variables have no destructors.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <utility>

#include <png.h>

#include "data/image_file.h"
#include "data/image_ops.h"

namespace ampctl::data {
namespace {

constexpr int kRgb = 3;

/// What libpng's callbacks see.
struct PngState {
  const uint8_t* next = nullptr;
  size_t left = 0;
  jmp_buf out{};
  char message[128] = "";
};

[[noreturn]] void leave(png_structp png, png_const_charp text) {
  auto* state = static_cast<PngState*>(png_get_error_ptr(png));
  std::snprintf(state->message, sizeof(state->message), "%s", text);
  longjmp(state->out, 1);
}

void print_nothing(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep into, size_t count) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  if (count > state->left) leave(png, "file ends early");
  std::memcpy(into, state->next, count);
  state->next += count;
  state->left -= count;
}

class PngReader : public ImageReader {
 public:
  PngReader(std::vector<uint8_t> bytes, std::string name) : bytes_(std::move(bytes)), name_(std::move(name)) {
    state_.next = bytes_.data();
    state_.left = bytes_.size();
    if (!read_header()) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw damaged();
    }
  }
  ~PngReader() override { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  [[nodiscard]] int64_t height() const override { return png_get_image_height(png_, info_); }
  [[nodiscard]] int64_t width() const override { return png_get_image_width(png_, info_); }

  [[nodiscard]] Image decode(const Region& region) override {
    Image image{height(), width(), kRgb, {}};
    const bool wide_grey = is_wide_grey();
    const int64_t bytes_per_pixel = wide_grey ? 2 : kRgb;
    std::vector<uint8_t> pixels(static_cast<size_t>(image.height * image.width * bytes_per_pixel));
    std::vector<png_bytep> rows(static_cast<size_t>(image.height));
    for (int64_t y = 0; y < image.height; ++y) {
      rows[static_cast<size_t>(y)] = pixels.data() + y * image.width * bytes_per_pixel;
    }
    if (!decode_rows(rows.data(), static_cast<size_t>(image.width * bytes_per_pixel))) throw damaged();
    image.pixels = wide_grey ? clip_wide_grey(pixels) : std::move(pixels);
    const bool whole = region == Region{0, 0, image.height, image.width};
    return whole ? std::move(image) : crop(image, region);
  }

 private:
  [[nodiscard]] DamagedSample damaged() const {
    return DamagedSample("image " + name_ + ": damaged PNG (" + state_.message + ")");
  }

  [[nodiscard]] bool is_wide_grey() const {
    constexpr int kWideBits = 16;
    return png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY &&
           png_get_bit_depth(png_, info_) == kWideBits;
  }

  /// 16-bit greyscale without alpha is the one kind where Pillow clips instead of dropping the low byte.
  static std::vector<uint8_t> clip_wide_grey(const std::vector<uint8_t>& big_endian) {
    const size_t count = big_endian.size() / 2;
    std::vector<uint8_t> rgb(count * kRgb);
    for (size_t i = 0; i < count; ++i) {
      const uint8_t value = big_endian[2 * i] != 0 ? uint8_t{UINT8_MAX} : big_endian[2 * i + 1];
      std::fill_n(rgb.begin() + static_cast<std::ptrdiff_t>(i * kRgb), kRgb, value);
    }
    return rgb;
  }

  bool read_header() {
    if (setjmp(state_.out) != 0) return false;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state_, leave, print_nothing);
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    if (info_ == nullptr) return false;
    png_set_read_fn(png_, &state_, read_bytes);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
    png_read_info(png_, info_);
    return true;
  }

  bool decode_rows(png_bytepp rows, size_t row_bytes) {
    if (setjmp(state_.out) != 0) return false;
    if (!is_wide_grey()) {
      png_set_strip_16(png_);
      png_set_expand_gray_1_2_4_to_8(png_);
      if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
      png_set_strip_alpha(png_);
      png_set_gray_to_rgb(png_);
    }
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != row_bytes) leave(png_, "unexpected kind of pixels");
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

  std::vector<uint8_t> bytes_;
  std::string name_;
  PngState state_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

std::unique_ptr<ImageReader> open_png(std::vector<uint8_t> bytes, const std::string& name) {
  auto reader = std::make_unique<PngReader>(std::move(bytes), name);
  check_image_size(reader->height(), reader->width(), name);
  return reader;
}

}  // namespace ampctl::data
