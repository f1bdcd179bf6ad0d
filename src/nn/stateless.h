// Layers without parameters or buffers, named and behaving as their namesakes in torch.nn.
#pragma once

#include <cstdint>

#include "kernels/max_pool.h"
#include "nn/layer.h"

namespace ampctl::nn {

/// In place (torch.nn.ReLU(inplace=True)): the input must not be needed by anyone else.
class ReLU : public Layer {
 public:
  [[nodiscard]] bool shares_its_input() const override { return true; }

 protected:
  at::Tensor forward(const at::Tensor& input) override;
};

using MaxPool2dOptions = kernels::PoolWindow;

/// (N, C, H, W) to (N, C, H', W').
class MaxPool2d : public Layer {
 public:
  explicit MaxPool2d(const MaxPool2dOptions& options = {}) : options_(options) {}

  [[nodiscard]] const MaxPool2dOptions& options() const { return options_; }

 protected:
  at::Tensor forward(const at::Tensor& input) override;

 private:
  MaxPool2dOptions options_;
};

/// (N, C, H, W) to (N, C, output_size, output_size).
class AdaptiveAvgPool2d : public Layer {
 public:
  explicit AdaptiveAvgPool2d(int64_t output_size = 1) : output_size_(output_size) {}

 protected:
  at::Tensor forward(const at::Tensor& input) override;

 private:
  int64_t output_size_;
};

/// (N, ...) to (N, product of the rest), in logical (channels first) order for any memory format.
class Flatten : public Layer {
 public:
  [[nodiscard]] bool shares_its_input() const override { return true; }

 protected:
  at::Tensor forward(const at::Tensor& input) override;
};

/// In training zeroes values with probability p and scales the others by 1 / (1 - p), drawing from the
/// device's default generator; p = 0 and evaluation draw nothing. Throws a usage error unless 0 <= p <= 1.
class Dropout : public Layer {
 public:
  explicit Dropout(double p);

  [[nodiscard]] bool draws_random_numbers() const override { return p_ > 0.0; }
  [[nodiscard]] bool shares_its_input() const override { return !is_training() || p_ == 0.0; }

 protected:
  at::Tensor forward(const at::Tensor& input) override;

 private:
  double p_;
};

class Identity : public Layer {
 public:
  [[nodiscard]] bool shares_its_input() const override { return true; }

 protected:
  at::Tensor forward(const at::Tensor& input) override;
};

}  // namespace ampctl::nn
