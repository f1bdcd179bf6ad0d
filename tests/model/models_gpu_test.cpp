#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "amp/autocast.h"
#include "model/models.h"
#include "nn/layer_tree.h"
#include "support/catch.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

constexpr int64_t kBatch = 8;
constexpr int64_t kClasses = 10;

nn::LayerPtr make(const std::string& name) {
  config::ModelConfig config;
  config.name = name;
  config.dropout = 0.25;
  at::manual_seed(0);
  auto model = model::make_model(config, {3, 64, 64}, kClasses);
  nn::to_channels_last(*model);
  return model;
}

at::Tensor images() { return at::randn({kBatch, 3, 64, 64}).contiguous(at::MemoryFormat::ChannelsLast); }

/// Forward under float16 autocast without a cast cache, then backward: what a captured step does.
at::Tensor forward_backward(nn::Layer& model, const at::Tensor& input, const at::Tensor& targets) {
  at::Tensor output;
  {
    const amp::Autocast region(at::kCUDA, at::kHalf, /*enabled=*/true, /*cache_enabled=*/false);
    output = model(input);
  }
  at::cross_entropy_loss(output.to(at::kFloat), targets).backward();
  return output.detach();
}

}  // namespace

TEST_CASE("Models compute on the GPU what they compute on the CPU", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("no CUDA device");
  for (const auto& name : {"mlp", "lenet", "resnet18", "resnet50"}) {
    INFO(name);
    const auto model = make(name);
    model->eval();
    const at::Tensor input = images();
    const at::Tensor expected = (*model)(input).to(at::kDouble);
    model->to(at::kCUDA);
    const at::Tensor actual = (*model)(input.cuda()).cpu().to(at::kDouble);
    // TF32 convolutions, on by default, keep 10 bits of mantissa.
    CHECK(((actual - expected).norm() / expected.norm()).item<double>() < 1e-2);
  }
}

TEST_CASE("A training step of every model reads nothing on the host and replays as a CUDA graph", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("no CUDA device");
  const auto stream = c10::cuda::getStreamFromPool();
  for (const auto& name : {"mlp", "lenet", "resnet18", "resnet50"}) {
    INFO(name);
    const auto model = make(name);
    nn::force_float32_modules(*model, {std::string(name).rfind("resnet", 0) == 0 ? "layer2" : "fc1"});
    model->to(at::kCUDA);
    const at::Tensor input = images().cuda();
    const at::Tensor targets = at::arange(kBatch, at::TensorOptions(at::kCUDA).dtype(at::kLong));
    at::cuda::CUDAGraph graph;
    at::Tensor output;
    {
      c10::cuda::device_synchronize();
      const c10::cuda::CUDAStreamGuard guard(stream);
      for (int warm_up = 0; warm_up < 3; ++warm_up) forward_backward(*model, input, targets);
      c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
      CHECK_NOTHROW(forward_backward(*model, input, targets));
      c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
      model->zero_grad(/*set_to_none=*/true);
      c10::cuda::device_synchronize();
      graph.capture_begin();
      output = forward_backward(*model, input, targets);
      graph.capture_end();
    }
    for (const auto& parameter : model->parameters()) parameter.grad().zero_();
    graph.replay();
    c10::cuda::device_synchronize();
    for (const auto& parameter : model->named_parameters()) {
      INFO(parameter.key());
      CHECK(parameter.value().grad().scalar_type() == at::kFloat);
      CHECK(parameter.value().grad().isfinite().all().item<bool>());
      CHECK(parameter.value().grad().norm().item<float>() > 0.0F);
    }
    for (const auto& buffer : model->named_buffers()) {
      // Three warm-ups, one checked step and one replay; capturing itself runs nothing.
      if (buffer.value().scalar_type() == at::kLong) CHECK(buffer.value().item<int64_t>() == 5);
    }
    CHECK(output.isfinite().all().item<bool>());
  }
}
