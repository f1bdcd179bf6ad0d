// Hidden: runs only when asked for by its tag, [benchmark].
#ifdef AMPCTL_WITH_CUDA
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "kernels/grad_stats.h"
#include "kernels/param_update.h"
#include "support/catch.h"
#include "support/gpu_time.h"
#include "support/skip.h"

using namespace ampctl;
using kernels::UpdateInputs;
using kernels::UpdateLists;

namespace {

/// ResNet-50's 161 parameters, 25.6 million values.
std::vector<std::vector<int64_t>> resnet50_shapes() {
  std::vector<std::vector<int64_t>> shapes;
  const auto conv_and_norm = [&](int64_t out, int64_t in, int64_t kernel) {
    shapes.insert(shapes.end(), {{out, in, kernel, kernel}, {out}, {out}});
  };
  conv_and_norm(64, 3, 7);
  int64_t in = 64;
  int64_t width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      conv_and_norm(width, in, 1);
      conv_and_norm(width, width, 3);
      conv_and_norm(4 * width, width, 1);
      if (block == 0) conv_and_norm(4 * width, in, 1);
      in = 4 * width;
    }
    width *= 2;
  }
  shapes.insert(shapes.end(), {{1000, 2048}, {1000}});
  return shapes;
}

UpdateLists resnet50(size_t state_kinds) {
  const at::TensorOptions options(at::kCUDA);
  UpdateLists lists;
  lists.states.resize(state_kinds);
  for (const auto& shape : resnet50_shapes()) {
    at::Tensor param = at::randn(shape, options);
    if (shape.size() == 4) param = param.contiguous(at::MemoryFormat::ChannelsLast);
    lists.params.push_back(param);
    lists.grads.push_back(at::randn_like(param));
    for (auto& kind : lists.states) kind.push_back(at::zeros_like(param));
    lists.copies.push_back(shape.size() > 1 ? at::empty_like(param, at::kHalf) : at::Tensor());
    lists.weight_decays.push_back(shape.size() > 1 ? 1e-4 : 0.0);
  }
  return lists;
}

void print(const std::string& name, const std::function<void()>& work, double bytes_a_value) {
  constexpr double kValues = 25.557e6;
  const float time = test::device_milliseconds(work);
  std::cout << name << ": " << time << " ms";
  if (bytes_a_value > 0) std::cout << ", " << kValues * bytes_a_value / time / 1e9 << " TB/s";
  std::cout << std::endl;
}

}  // namespace

TEST_CASE("Time of the gradients' check and the update for ResNet-50 beside PyTorch's", "[.benchmark]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const auto scalar = [](double value) { return at::full({}, value, at::TensorOptions(at::kCUDA)); };
  const UpdateInputs inputs{scalar(1e-6), scalar(1.0), scalar(1024.0), scalar(0.0)};
  const UpdateLists sgd = resnet50(1);
  print(
      "grad_stats", [&] { kernels::grad_stats(sgd.grads); }, 4);
  print(
      "grad_stats, stock operators", [&] { kernels::grad_stats_reference(sgd.grads); }, 0);
  const kernels::SgdOptions momentum{.momentum = 0.9};
  print(
      "sgd ampctl", [&] { kernels::sgd_update_(sgd, momentum, inputs); }, 22);
  print(
      "sgd PyTorch", [&] { kernels::sgd_update_reference_(sgd, momentum, inputs); }, 0);
  const UpdateLists adam = resnet50(2);
  print(
      "adamw ampctl", [&] { kernels::adam_update_(adam, {}, inputs); }, 30);
  print(
      "adamw PyTorch", [&] { kernels::adam_update_reference_(adam, {}, inputs); }, 0);
}
#endif
