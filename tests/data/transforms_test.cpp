#include "data/transforms.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/process.h"
#include "support/skip.h"

using namespace ampctl;
using test::ContainsSubstring;

namespace {

config::TransformConfig transform(const std::string& name, int64_t size = 0, int64_t padding = 0) {
  config::TransformConfig config;
  config.name = name;
  config.size = size;
  config.padding = padding;
  return config;
}

struct Boxes {
  std::vector<double> area, ratio, top, left;  // top and left: share of the room there was

  void add(double t, double l, double h, double w, double height, double width) {
    area.push_back(h * w);
    ratio.push_back(std::log(w / h));
    top.push_back(height > h ? t / (height - h) : 0.0);
    left.push_back(width > w ? l / (width - w) : 0.0);
  }
};

constexpr int kCount = 2000;
constexpr std::pair<int64_t, int64_t> kSizes[] = {{375, 500}, {600, 90}};  // height, width

Boxes own_boxes(int64_t height, int64_t width) {
  const data::Transforms transforms({transform("random_resized_crop", 224)});
  Boxes boxes;
  for (int i = 0; i < kCount; ++i) {
    data::Random random(9, data::Stream::augmentation, 0, i);
    const data::Region box = transforms.plan(height, width, random, "image").source;
    boxes.add(static_cast<double>(box.top), static_cast<double>(box.left), static_cast<double>(box.height),
              static_cast<double>(box.width), static_cast<double>(height), static_cast<double>(width));
  }
  return boxes;
}

/// For each of kSizes.
std::vector<Boxes> torchvision_boxes() {
  const auto script = test::source_dir() / "tests" / "reference" / "data_random_resized_crop.py";
  std::vector<std::string> command{test::python(), script.string(), std::to_string(kCount)};
  for (const auto& [height, width] : kSizes) {
    command.push_back(std::to_string(height));
    command.push_back(std::to_string(width));
  }
  const auto result = test::run(command);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  std::vector<Boxes> all;
  std::istringstream lines(result.out);
  for (const auto& [height, width] : kSizes) {
    Boxes boxes;
    for (int i = 0; i < kCount; ++i) {
      double t = 0, l = 0, h = 0, w = 0;
      REQUIRE(lines >> t >> l >> h >> w);
      boxes.add(t, l, h, w, static_cast<double>(height), static_cast<double>(width));
    }
    all.push_back(std::move(boxes));
  }
  return all;
}

/// Kolmogorov-Smirnov: the largest distance between two samples' distribution functions.
double distance(std::vector<double> a, std::vector<double> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double largest = 0.0;
  for (const double value : a) {
    const auto below = [value](const std::vector<double>& sorted) {
      const auto at = std::upper_bound(sorted.begin(), sorted.end(), value);
      return static_cast<double>(at - sorted.begin()) / static_cast<double>(sorted.size());
    };
    largest = std::max(largest, std::abs(below(a) - below(b)));
  }
  return largest;
}

}  // namespace

TEST_CASE("random_resized_crop draws boxes distributed as torchvision's") {
  if (!test::python_has({"torchvision"})) return test::skip("Python has no torchvision");
  // Two equal distributions are further apart than this once in a thousand.
  const double limit = 1.95 * std::sqrt(2.0 / kCount);
  const std::vector<Boxes> all_expected = torchvision_boxes();
  for (size_t i = 0; i < all_expected.size(); ++i) {
    const Boxes& expected = all_expected[i];
    const Boxes own = own_boxes(kSizes[i].first, kSizes[i].second);
    CHECK(distance(own.area, expected.area) < limit);
    CHECK(distance(own.ratio, expected.ratio) < limit);
    CHECK(distance(own.top, expected.top) < limit);
    CHECK(distance(own.left, expected.left) < limit);
  }
}

TEST_CASE("random_resized_crop falls back to the largest central crop") {
  auto config = transform("random_resized_crop", 8);
  config.scale = {1.0, 1.0};
  const data::Transforms transforms({config});
  const auto box = [&](int64_t height, int64_t width) {
    data::Random random(1, data::Stream::augmentation);
    return transforms.plan(height, width, random, "image").source;
  };
  // torchvision: w = 30, h = round(30 / 0.75) = 40, (100 - 40) // 2 = 30; and h = 30, w = round(30 * 4 / 3).
  CHECK(box(100, 30) == data::Region{30, 0, 40, 30});
  CHECK(box(30, 100) == data::Region{0, 30, 30, 40});
  CHECK(box(1, 1000) == data::Region{0, 499, 1, 1});
}

TEST_CASE("random_crop pads with zeros and reaches every offset") {
  const data::Transforms transforms({transform("random_crop", 4, 2)});
  std::vector<int> tops(5);
  std::vector<int> lefts(5);
  for (int i = 0; i < 1000; ++i) {
    data::Random random(2, data::Stream::augmentation, 0, i);
    data::DecodedImageReader reader({4, 4, 1, std::vector<uint8_t>(16, 200)});
    const auto plan = transforms.plan(4, 4, random, "image");
    const data::Region source = plan.source;
    data::Region region = source;
    if (!plan.steps.empty()) region = std::get<data::CropStep>(plan.steps.at(0)).region;
    ++tops.at(static_cast<size_t>(region.top + 2));
    ++lefts.at(static_cast<size_t>(region.left + 2));
    const data::Image image = data::apply(plan, reader);
    const int64_t inside = (4 - std::abs(region.top)) * (4 - std::abs(region.left));
    CHECK(std::count(image.pixels.begin(), image.pixels.end(), 200) == inside);
  }
  for (const int count : tops) CHECK(count > 150);
  for (const int count : lefts) CHECK(count > 150);
  data::Random random(1, data::Stream::augmentation);
  const data::Transforms unpadded({transform("random_crop", 4)});
  CHECK_THROWS_WITH(unpadded.plan(4, 3, random, "dir/small.jpg"),
                    ContainsSubstring("dir/small.jpg") && ContainsSubstring("too small"));
}

TEST_CASE("horizontal_flip happens with its probability") {
  auto config = transform("horizontal_flip");
  const auto flips = [&](double p) {
    config.p = p;
    const data::Transforms transforms({config});
    int count = 0;
    for (int i = 0; i < 10000; ++i) {
      data::Random random(3, data::Stream::augmentation, 1, i);
      count += static_cast<int>(transforms.plan(2, 2, random, "image").steps.size());
    }
    return count;
  };
  CHECK(flips(0.0) == 0);
  CHECK(flips(1.0) == 10000);
  CHECK(std::abs(flips(0.5) - 5000) < 200);
  CHECK(std::abs(flips(0.1) - 1000) < 120);
}

TEST_CASE("A crop that comes first decides which part is decoded") {
  data::Random random(1, data::Stream::augmentation);
  const data::Transforms first({transform("center_crop", 10), transform("resize", 5)});
  const auto plan = first.plan(20, 30, random, "image");
  CHECK(plan.source == data::Region{5, 10, 10, 10});
  CHECK(plan.steps.size() == 1);
  const data::Transforms second({transform("resize", 10), transform("center_crop", 10)});
  CHECK(second.plan(20, 30, random, "image").source == data::Region{0, 0, 20, 30});
}

TEST_CASE("A sliver of an image cannot be stretched beyond the limit on pixels") {
  const data::Transforms transforms({transform("resize", 256)});
  data::Random random(1, data::Stream::augmentation);
  CHECK_THROWS_AS(transforms.plan(1, 100'000'000, random, "sliver.png"), data::DamagedSample);
}

TEST_CASE("normalize becomes one factor and one term a channel") {
  auto config = transform("normalize");
  config.mean = {0.5, 0.25, 0.125};
  config.std = {0.5};
  const auto affine = data::Transforms({config}).affine(3);
  for (size_t c = 0; c < 3; ++c) {
    CHECK(affine.scale[c] == Approx(1.0 / (255.0 * 0.5)));
    CHECK(affine.shift[c] == Approx(-config.mean[c] / 0.5));
  }
  CHECK(data::Transforms({}).affine(1).scale[0] == Approx(1.0 / 255.0));
  CHECK_THROWS_WITH(data::Transforms({config}).affine(1), ContainsSubstring("channels"));
}

TEST_CASE("Transforms that cannot work are refused before any data is read") {
  const auto refused = [](std::vector<config::TransformConfig> list, const std::string& expected) {
    CHECK_THROWS_WITH(data::Transforms(std::move(list)), ContainsSubstring(expected));
  };
  refused({transform("rotate", 3)}, "is not a transform");
  refused({transform("resize")}, "size of at least 1");
  refused({transform("random_crop", 3, -1)}, "padding");
  auto config = transform("random_resized_crop", 8);
  config.scale = {0.9, 0.1};
  refused({config}, "rising");
  config = transform("horizontal_flip");
  config.p = 1.5;
  refused({config}, "p from 0 to 1");
  config = transform("normalize");
  refused({config}, "mean");
  config.mean = {0.5};
  config.std = {0.0};
  refused({config}, "std above 0");
  config.std = {1.0};
  refused({config, transform("resize", 4)}, "last");
}
