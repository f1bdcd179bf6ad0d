// Weights' gradients beside the rest of the backward pass.
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAGuard.h>

#include "amp/autocast.h"
#include "nn/convolution.h"
#include "nn/layer_tree.h"
#include "nn/working_weights.h"
#include "support/catch.h"
#include "support/cudnn_benchmark.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

constexpr int64_t kCycles = 20'000'000;  // some ten milliseconds

/// Three convolutions one after the other.
struct Net : nn::Layer {
  std::vector<std::shared_ptr<nn::Conv2d>> convs;

  Net() {
    at::manual_seed(3);
    for (int i = 0; i < 3; ++i) {
      const nn::Conv2dOptions options{
          .in_channels = 32, .out_channels = 32, .kernel_size = 3, .padding = 1, .bias = false};
      convs.push_back(register_module("conv" + std::to_string(i), std::make_shared<nn::Conv2d>(options)));
    }
    to(at::kCUDA);
    nn::to_channels_last(*this);
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = input;
    for (const auto& conv : convs) x = conv->convolve(x).output.relu();
    return x;
  }

  void run_backward(const at::Tensor& input) {
    at::Tensor output;
    {
      const amp::Autocast region(at::kCUDA, at::kHalf, /*enabled=*/true, /*cache_enabled=*/false);
      output = (*this)(input);
    }
    output.to(at::kFloat).sum().backward();
  }

  std::vector<at::Tensor> copies_of_gradients() {
    std::vector<at::Tensor> copies;
    for (const auto& conv : convs) copies.push_back(conv->weight().grad().clone());
    return copies;
  }
};

at::Tensor images() {
  const at::Tensor drawn = at::randn({4, 32, 16, 16}, at::TensorOptions(at::kCUDA).dtype(at::kHalf));
  return drawn.contiguous(at::MemoryFormat::ChannelsLast);
}

void check_close(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto error = (found[i] - wanted[i]).norm().item<double>();
    CHECK(error < 1e-3 * wanted[i].norm().item<double>());
  }
}

}  // namespace

TEST_CASE("Gradients of weights on a stream of their own are there when the backward pass returns", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const test::CudnnBenchmark benchmark;
  Net plain;
  Net beside;
  const nn::WorkingWeights plain_weights(plain, at::kHalf);
  nn::WorkingWeights weights(beside, at::kHalf);
  const auto stream = c10::cuda::getStreamFromPool();
  weights.set_gradient_stream(stream.unwrap());
  for (int pass = 0; pass < 3; ++pass) {
    const at::Tensor input = images();
    plain.run_backward(input);
    {
      // What does not wait for this stream comes too early by far.
      const c10::cuda::CUDAStreamGuard guard(stream);
      at::cuda::sleep(kCycles);
    }
    beside.run_backward(input);
    check_close(beside.copies_of_gradients(), plain.copies_of_gradients());
  }
}

TEST_CASE("A CUDA graph holds gradients on a stream of their own", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const test::CudnnBenchmark benchmark;
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  Net plain;
  Net beside;
  const nn::WorkingWeights plain_weights(plain, at::kHalf);
  nn::WorkingWeights weights(beside, at::kHalf);
  weights.set_gradient_stream(c10::cuda::getStreamFromPool().unwrap());
  const at::Tensor input = images();
  beside.run_backward(input);
  plain.run_backward(input);
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  beside.run_backward(input);
  graph.capture_end();
  for (int replay = 0; replay < 3; ++replay) {
    input.copy_(images());
    graph.replay();
    plain.run_backward(input);
    check_close(beside.copies_of_gradients(), plain.copies_of_gradients());
  }
}
