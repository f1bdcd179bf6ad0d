#include "catalog/models.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace ampctl::catalog {
namespace {

constexpr int64_t kSmallestLenetInput = 12;  // leaves one pixel after both convolutions and poolings

ModelInfo resnet(const std::string& depth) {
  return {"resnet" + depth,
          "Residual network of " + depth + " layers, torchvision's v1.5.",
          {"zero_init_residual"},
          false,
          1,
          {}};
}

// Adds layers up, in the order in which the image passes them.
class Counter {
 public:
  explicit Counter(const ModelShape& shape)
      : channels_(shape.channels), height_(shape.height), width_(shape.width) {
    keep();
  }

  void conv(int64_t out, int64_t kernel, int64_t stride, int64_t padding, bool bias) {
    cost_.parameters += out * channels_ * kernel * kernel + (bias ? out : 0);
    const int64_t in = channels_;
    resize(kernel, stride, padding);
    channels_ = out;
    cost_.forward_flops += 2 * out * in * kernel * kernel * height_ * width_;
  }

  void batch_norm() {
    cost_.parameters += 2 * channels_;
    cost_.buffers += 2 * channels_;
  }

  void max_pool(int64_t kernel, int64_t stride, int64_t padding) {
    resize(kernel, stride, padding);
    cost_.indices += elements();
  }

  void global_average() { height_ = width_ = 1; }

  void linear(int64_t out) {
    cost_.parameters += out * elements() + out;
    cost_.forward_flops += 2 * out * elements();
    channels_ = out;
    height_ = width_ = 1;
  }

  // What stands here now is needed again by the backward pass.
  void keep() { cost_.activations += elements(); }

  [[nodiscard]] int64_t channels() const { return channels_; }
  [[nodiscard]] int64_t elements() const { return channels_ * height_ * width_; }
  [[nodiscard]] const ModelCost& cost() const { return cost_; }

  /// A second way from `from`'s place to here; only its layers count.
  void add_branch(const Counter& from, int64_t out, int64_t stride) {
    Counter branch = from;
    branch.cost_ = {};
    branch.conv(out, 1, stride, 0, false);
    branch.batch_norm();
    branch.keep();
    cost_.parameters += branch.cost_.parameters;
    cost_.buffers += branch.cost_.buffers;
    cost_.activations += branch.cost_.activations;
    cost_.forward_flops += branch.cost_.forward_flops;
  }

 private:
  void resize(int64_t kernel, int64_t stride, int64_t padding) {
    height_ = (height_ + 2 * padding - kernel) / stride + 1;
    width_ = (width_ + 2 * padding - kernel) / stride + 1;
  }

  int64_t channels_;
  int64_t height_;
  int64_t width_;
  ModelCost cost_;
};

ModelCost mlp_cost(const ModelShape& shape) {
  Counter count(shape);
  for (const int64_t width : shape.hidden_sizes) {
    count.linear(width);
    count.keep();
    // Dropout keeps its mask and hands on a new tensor.
    if (shape.dropout) {
      count.keep();
      count.keep();
    }
  }
  count.linear(shape.num_classes);
  return count.cost();
}

ModelCost lenet_cost(const ModelShape& shape) {
  Counter count(shape);
  for (const auto& [channels, padding] : {std::pair<int64_t, int64_t>{6, 2}, {16, 0}}) {
    count.conv(channels, 5, 1, padding, true);
    count.keep();
    count.max_pool(2, 2, 0);
    count.keep();
  }
  for (const int64_t width : {120, 84}) {
    count.linear(width);
    count.keep();
  }
  count.linear(shape.num_classes);
  return count.cost();
}

struct ResnetLayout {
  std::array<int64_t, 4> blocks;
  bool bottleneck;
};

// Batch norm needs the convolution's output, the next convolution the rectified one: both are kept.
void conv_bn_relu(Counter& count, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
  count.conv(out, kernel, stride, padding, false);
  count.batch_norm();
  count.keep();
  count.keep();
}

// Source: torchvision.models.resnet, where a bottleneck's stride sits in its 3x3 convolution (v1.5).
ModelCost resnet_cost(const ResnetLayout& layout, const ModelShape& shape) {
  constexpr int64_t kStemChannels = 64;
  Counter count(shape);
  conv_bn_relu(count, kStemChannels, 7, 2, 3);
  count.max_pool(3, 2, 1);
  count.keep();
  int64_t width = kStemChannels;
  for (size_t stage = 0; stage < layout.blocks.size(); ++stage, width *= 2) {
    const int64_t out = layout.bottleneck ? 4 * width : width;
    for (int64_t block = 0; block < layout.blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      const Counter before = count;
      if (layout.bottleneck) {
        conv_bn_relu(count, width, 1, 1, 0);
        conv_bn_relu(count, width, 3, stride, 1);
        conv_bn_relu(count, out, 1, 1, 0);
      } else {
        conv_bn_relu(count, width, 3, stride, 1);
        conv_bn_relu(count, width, 3, 1, 1);
      }
      if (stride != 1 || before.channels() != out) count.add_branch(before, out, stride);
    }
  }
  count.global_average();
  count.keep();
  count.linear(shape.num_classes);
  return count.cost();
}

ResnetLayout resnet_layout(std::string_view name) {
  if (name == "resnet18") return {{2, 2, 2, 2}, false};
  if (name == "resnet34") return {{3, 4, 6, 3}, false};
  if (name == "resnet50") return {{3, 4, 6, 3}, true};
  if (name == "resnet101") return {{3, 4, 23, 3}, true};
  return {{3, 8, 36, 3}, true};
}

}  // namespace

const std::vector<ModelInfo>& models() {
  static const std::vector<ModelInfo> table{
      {"mlp",
       "Fully connected layers with ReLU.",
       {"hidden_sizes", "dropout"},
       true,
       1,
       {1, 28, 28, 10, {256}}},
      {"lenet",
       "LeNet-5: two convolutions, three fully connected layers.",
       {},
       true,
       kSmallestLenetInput,
       {1, 28, 28, 10, {}}},
      resnet("18"),
      resnet("34"),
      resnet("50"),
      resnet("101"),
      resnet("152"),
  };
  return table;
}

const ModelInfo* find_model(std::string_view name) {
  const auto found = std::ranges::find(models(), name, &ModelInfo::name);
  return found == models().end() ? nullptr : &*found;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& model : models()) names.push_back(model.name);
  return names;
}

std::vector<std::string> models_taking(std::string_view option) {
  std::vector<std::string> names;
  for (const auto& model : models()) {
    if (std::ranges::find(model.options, option) != model.options.end()) names.push_back(model.name);
  }
  return names;
}

ModelCost model_cost(std::string_view name, const ModelShape& shape) {
  const ModelInfo* info = find_model(name);
  if (info == nullptr) throw usage_error("unknown model '" + std::string(name) + "'");
  if (std::min(shape.height, shape.width) < info->min_input_size) {
    throw usage_error("model " + info->name + ": expected images of at least " +
                      std::to_string(info->min_input_size) + " pixels in height and width, found " +
                      std::to_string(shape.height) + "x" + std::to_string(shape.width));
  }
  if (info->name == "mlp") return mlp_cost(shape);
  if (info->name == "lenet") return lenet_cost(shape);
  return resnet_cost(resnet_layout(name), shape);
}

}  // namespace ampctl::catalog
