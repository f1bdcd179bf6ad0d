// JPEG through libjpeg. Its errors come by longjmp, so every call into it stands in a function whose local
// variables have no destructors.
#include <csetjmp>
#include <cstdio>
#include <utility>

// clang-format off
#include <jpeglib.h>
#include <jerror.h>  // after jpeglib.h: its numbers depend on what that defines
// clang-format on

#include "data/image_file.h"
#include "data/image_ops.h"

namespace ampctl::data {
namespace {

constexpr int kRgb = 3;
// As djpeg -maxscans: a small progressive file with very many scans takes hours to decode.
constexpr int kMaxScans = 500;

struct ErrorState {
  jpeg_error_mgr manager;  // first, so that libjpeg's pointer to it is one to this struct
  jmp_buf out;
  char message[JMSG_LENGTH_MAX];
};

ErrorState& error_state(j_common_ptr common) { return *reinterpret_cast<ErrorState*>(common->err); }

[[noreturn]] void leave(j_common_ptr common) {
  ErrorState& state = error_state(common);
  (*common->err->format_message)(common, state.message);
  longjmp(state.out, 1);
}

/// libjpeg goes on after these with made-up pixels; other warnings (a few stray bytes between segments, an
/// odd version number) do no harm to the picture.
bool loses_pixels(int warning) {
  return warning == JWRN_JPEG_EOF || warning == JWRN_HIT_MARKER || warning == JWRN_HUFF_BAD_CODE ||
         warning == JWRN_ARITH_BAD_CODE || warning == JWRN_MUST_RESYNC;
}

void on_message(j_common_ptr common, int level) {
  if (level < 0 && loses_pixels(common->err->msg_code)) leave(common);
}

void print_nothing(j_common_ptr) {}

void limit_scans(j_common_ptr common) {
  if (!common->is_decompressor) return;
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(common);
  if (decompress->input_scan_number > kMaxScans) {
    std::snprintf(error_state(common).message, JMSG_LENGTH_MAX, "more than %d scans", kMaxScans);
    longjmp(error_state(common).out, 1);
  }
}

uint8_t multiply_255(int a, int b) {
  const int product = a * b + 128;
  return static_cast<uint8_t>(((product >> 8) + product) >> 8);
}

/// Pillow's conversions: Adobe's inverted CMYK is assumed, then each ink darkens what black leaves.
void cmyk_to_rgb(const uint8_t* inverted, int64_t width, uint8_t* rgb) {
  for (int64_t x = 0; x < width; ++x) {
    const int light = inverted[4 * x + 3];
    for (int c = 0; c < kRgb; ++c) {
      const int ink = UINT8_MAX - inverted[4 * x + c];
      rgb[kRgb * x + c] = static_cast<uint8_t>(light - multiply_255(ink, light));
    }
  }
}

void grey_to_rgb(const uint8_t* grey, int64_t width, uint8_t* rgb) {
  for (int64_t x = 0; x < width; ++x) rgb[kRgb * x] = rgb[kRgb * x + 1] = rgb[kRgb * x + 2] = grey[x];
}

class JpegReader : public ImageReader {
 public:
  JpegReader(std::vector<uint8_t> bytes, std::string name)
      : bytes_(std::move(bytes)), name_(std::move(name)) {
    jpeg_.err = jpeg_std_error(&error_.manager);
    error_.manager.error_exit = leave;
    error_.manager.emit_message = on_message;
    error_.manager.output_message = print_nothing;
    progress_.progress_monitor = limit_scans;
    if (!read_header()) {
      jpeg_destroy_decompress(&jpeg_);
      throw damaged();
    }
  }
  ~JpegReader() override { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  [[nodiscard]] int64_t height() const override { return jpeg_.image_height; }
  [[nodiscard]] int64_t width() const override { return jpeg_.image_width; }

  [[nodiscard]] Image decode(const Region& region) override {
    check_image_size(height(), width(), name_);
    if (jpeg_.num_components == 2) {
      throw DamagedSample("image " + name_ + ": a JPEG of 2 components is not supported");
    }
    Image image{height(), width(), kRgb, {}};
    image.pixels.resize(static_cast<size_t>(image.height * image.width * kRgb));
    std::vector<uint8_t> row(static_cast<size_t>(image.width * jpeg_.num_components));
    if (!decode_rows(image.pixels.data(), row.data())) throw damaged();
    const bool whole = region == Region{0, 0, image.height, image.width};
    return whole ? std::move(image) : crop(image, region);
  }

 private:
  [[nodiscard]] DamagedSample damaged() const {
    return DamagedSample("image " + name_ + ": damaged JPEG (" + error_.message + ")");
  }

  bool read_header() {
    if (setjmp(error_.out) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, bytes_.data(), bytes_.size());
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }

  bool decode_rows(uint8_t* rgb, uint8_t* row) {
    if (setjmp(error_.out) != 0) return false;
    const bool grey = jpeg_.num_components == 1;
    const bool cmyk = jpeg_.num_components == 4;
    jpeg_.out_color_space = grey ? JCS_GRAYSCALE : cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&jpeg_);
    const int64_t width_in_pixels = jpeg_.output_width;
    while (jpeg_.output_scanline < jpeg_.output_height) {
      uint8_t* out = rgb + int64_t{jpeg_.output_scanline} * width_in_pixels * kRgb;
      uint8_t* into = grey || cmyk ? row : out;
      jpeg_read_scanlines(&jpeg_, &into, 1);
      if (grey) grey_to_rgb(row, width_in_pixels, out);
      if (cmyk) cmyk_to_rgb(row, width_in_pixels, out);
    }
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

  std::vector<uint8_t> bytes_;
  std::string name_;
  ErrorState error_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct jpeg_{};
};

}  // namespace

std::unique_ptr<ImageReader> open_jpeg(std::vector<uint8_t> bytes, const std::string& name) {
  auto reader = std::make_unique<JpegReader>(std::move(bytes), name);
  check_image_size(reader->height(), reader->width(), name);
  return reader;
}

}  // namespace ampctl::data
