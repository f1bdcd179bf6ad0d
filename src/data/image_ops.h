// Operations on uint8 images, with Pillow's pixels.
#pragma once

#include <cstdint>

#include "data/image.h"

namespace ampctl::data {

/// The pixels of `region`; those outside the image are 0.
Image crop(const Image& image, const Region& region);

/// Mirrors left and right, in place.
void flip_horizontally(Image& image);

/// PIL.Image.resize((width, height), BILINEAR): a triangle filter widened by the scale when shrinking
/// (antialiased), applied along rows and then along columns in 22-bit fixed point with 8-bit intermediates.
/// Each pass equals Pillow's bit by bit; Pillow 13 goes along columns first for some sizes, and then a pixel
/// can differ by 1. height, width >= 1.
Image resize_bilinear(const Image& image, int64_t height, int64_t width);

}  // namespace ampctl::data
