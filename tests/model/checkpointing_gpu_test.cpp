// Activation checkpointing on a GPU: what it is for, and that a CUDA graph can hold it.
#include <iostream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "amp/autocast.h"
#include "base/error.h"
#include "model/models.h"
#include "nn/layer_tree.h"
#include "support/catch.h"
#include "support/deterministic.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

constexpr int64_t kClasses = 10;

nn::LayerPtr make(const std::string& name, const std::vector<std::string>& patterns) {
  config::ModelConfig config;
  config.name = name;
  config.dropout = 0.25;
  at::manual_seed(0);
  auto model = model::make_model(config, {3, 64, 64}, kClasses);
  nn::checkpoint_activations(*model, patterns);
  model->to(at::kCUDA);
  nn::to_channels_last(*model);
  return model;
}

at::Tensor images(int64_t batch, int64_t size) {
  return at::randn({batch, 3, size, size}, at::kCUDA).contiguous(at::MemoryFormat::ChannelsLast);
}

void forward_backward(nn::Layer& model, const at::Tensor& input) {
  at::Tensor output;
  {
    const amp::Autocast region(at::kCUDA, at::kHalf, /*enabled=*/true, /*cache_enabled=*/false);
    output = model(input);
  }
  output.to(at::kFloat).square().sum().backward();
}

int64_t peak_of_a_pass(const std::vector<std::string>& patterns) {
  const auto model = make("resnet50", patterns);
  const at::Tensor input = images(16, 224);
  forward_backward(*model, input);
  c10::cuda::CUDACachingAllocator::resetPeakStats(0);
  forward_backward(*model, input);
  return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].peak;
}

}  // namespace

TEST_CASE("ResNet-50 with checkpointed blocks needs much less memory", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("no CUDA device");
  const int64_t plain = peak_of_a_pass({});
  const int64_t checkpointed = peak_of_a_pass({"layer?.?"});
  const auto mebibytes = [](int64_t bytes) { return bytes >> 20; };
  std::cout << "peak: " << mebibytes(plain) << " MiB, with checkpointed blocks " << mebibytes(checkpointed)
            << " MiB" << std::endl;
  CHECK(static_cast<double>(checkpointed) < 0.6 * static_cast<double>(plain));
}

TEST_CASE("A captured pass with checkpointed blocks replays what an eager pass without them does", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("no CUDA device");
  const test::Deterministic deterministic;
  const auto plain = make("resnet18", {});
  const auto checkpointed = make("resnet18", {"layer?.?"});
  const at::Tensor input = images(8, 64);
  const at::Tensor next = images(8, 64);
  CHECK_FALSE(nn::capture_obstacle(*checkpointed));
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  c10::cuda::device_synchronize();
  forward_backward(*checkpointed, input);  // gradients exist, so that capture adds to them
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  forward_backward(*checkpointed, input);
  graph.capture_end();
  graph.replay();
  for (int i = 0; i < 2; ++i) forward_backward(*plain, input);
  input.copy_(next);
  graph.replay();
  forward_backward(*plain, input);
  const auto found = checkpointed->named_parameters();
  for (const auto& parameter : plain->named_parameters()) {
    INFO(parameter.key());
    const at::Tensor& grad = found[parameter.key()].grad();
    // The stem hands its output to two readers of the first block. Their gradients reach its backward pass
    // one by one, but from a checkpointed block as a sum, which is rounded to float16.
    if (parameter.key() == "conv1.weight" || parameter.key().rfind("bn1.", 0) == 0) {
      const at::Tensor& wanted = parameter.value().grad();
      CHECK((grad - wanted).norm().item<double>() < 2e-3 * wanted.norm().item<double>());
    } else {
      CHECK(at::equal(grad, parameter.value().grad()));
    }
  }
  const auto buffers = checkpointed->named_buffers();
  for (const auto& buffer : plain->named_buffers()) {
    INFO(buffer.key());
    CHECK(at::equal(buffers[buffer.key()], buffer.value()));
  }
}

TEST_CASE("Checkpointed dropout is refused while a CUDA graph is captured", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("no CUDA device");
  const auto model = make("mlp", {"dropout"});
  const at::Tensor input = images(4, 64);
  forward_backward(*model, input);
  CHECK(nn::capture_obstacle(*model));
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  CHECK_THROWS_AS(forward_backward(*model, input), Error);
  graph.capture_end();
}
