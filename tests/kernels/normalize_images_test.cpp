#include "kernels/normalize_images.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>

#include "base/error.h"
#include "support/catch.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kHalf, at::kBFloat16};

struct Input {
  at::Tensor images, scale, shift;
};

Input input(int64_t n, int64_t height, int64_t width, int64_t channels) {
  return {at::randint(0, 256, {n, height, width, channels}, at::kByte), at::rand({channels}).mul(0.02),
          at::rand({channels}).sub(0.5)};
}

bool same_layout(const at::Tensor& tensor, bool channels_last) {
  return tensor.is_contiguous(channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
}

}  // namespace

TEST_CASE("normalize_images equals its composition of stock operators exactly") {
  for (int64_t channels = 1; channels <= 4; ++channels) {
    for (const bool channels_last : {false, true}) {
      for (const at::ScalarType dtype : kDtypes) {
        const Input in = input(3, 5, 7, channels);
        const at::Tensor own = kernels::normalize_images(in.images, in.scale, in.shift, dtype, channels_last);
        const at::Tensor stock =
            kernels::normalize_images_reference(in.images, in.scale, in.shift, dtype, channels_last);
        CHECK(own.scalar_type() == dtype);
        CHECK(own.sizes() == at::IntArrayRef({3, channels, 5, 7}));
        CHECK(same_layout(own, channels_last));
        CHECK(at::equal(own, stock));
      }
    }
  }
}

TEST_CASE("normalize_images on the GPU equals the CPU bit by bit", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::Device gpu(c10::kCUDA, 0);
  for (int64_t channels = 1; channels <= 4; ++channels) {
    for (const bool channels_last : {false, true}) {
      for (const at::ScalarType dtype : kDtypes) {
        // 3 * 5 * 7 and 1 * 1 * 3 pixels leave a rest after whole pieces of four.
        for (const auto& in :
             {input(3, 5, 7, channels), input(1, 1, 3, channels), input(64, 32, 32, channels)}) {
          const at::Tensor expected =
              kernels::normalize_images(in.images, in.scale, in.shift, dtype, channels_last);
          const at::Tensor found = kernels::normalize_images(in.images.to(gpu), in.scale.to(gpu),
                                                             in.shift.to(gpu), dtype, channels_last);
          CHECK(found.device() == gpu);
          CHECK(same_layout(found, channels_last));
          CHECK(at::equal(found.cpu(), expected));
        }
      }
    }
  }
  // A part of a batch need not begin at an aligned address.
  const Input in = input(4, 3, 3, 3);
  const at::Tensor part = in.images.to(gpu).narrow(0, 1, 3);
  CHECK(at::equal(kernels::normalize_images(part, in.scale.to(gpu), in.shift.to(gpu), at::kHalf, true).cpu(),
                  kernels::normalize_images(in.images.narrow(0, 1, 3), in.scale, in.shift, at::kHalf, true)));
}

TEST_CASE("normalize_images takes an empty batch and refuses other shapes and dtypes") {
  const Input in = input(2, 3, 4, 3);
  CHECK(kernels::normalize_images(in.images.narrow(0, 0, 0), in.scale, in.shift, at::kHalf, true).size(0) ==
        0);
  const auto refused = [&](const at::Tensor& images, const at::Tensor& scale, at::ScalarType dtype) {
    CHECK_THROWS_AS(kernels::normalize_images(images, scale, in.shift, dtype, false), Error);
  };
  refused(in.images.to(at::kFloat), in.scale, at::kFloat);
  refused(in.images.permute({0, 3, 1, 2}), in.scale, at::kFloat);
  refused(in.images[0], in.scale, at::kFloat);
  refused(at::empty({2, 3, 4, 5}, at::kByte), at::rand({5}), at::kFloat);
  refused(in.images, at::rand({2}), at::kFloat);
  refused(in.images, in.scale, at::kDouble);
}
