// Hidden: runs only when asked for by its tag, [benchmark].
#ifdef AMPCTL_WITH_CUDA
#include <array>
#include <cstdio>
#include <functional>
#include <vector>

#include <c10/cuda/CUDAGuard.h>

#include "batch_norm_fixture.h"
#include "kernels/batch_norm_pair.h"
#include "kernels/batch_norm_pool.h"
#include "support/catch.h"
#include "support/gpu_time.h"
#include "support/skip.h"

using namespace ampctl;
using kernels::BatchNormInputs;

namespace {

enum class Form { plain, relu, add_relu };

struct Norm {
  Form form;
  int64_t channels;
  int64_t size;   // height and width
  int64_t count;  // in ResNet-50
};

constexpr std::array kNorms{
    Norm{Form::relu, 64, 112, 1},     Norm{Form::relu, 64, 56, 6},       Norm{Form::add_relu, 256, 56, 3},
    Norm{Form::plain, 256, 56, 1},    Norm{Form::relu, 128, 56, 1},      Norm{Form::relu, 128, 28, 7},
    Norm{Form::add_relu, 512, 28, 4}, Norm{Form::plain, 512, 28, 1},     Norm{Form::relu, 256, 28, 1},
    Norm{Form::relu, 256, 14, 11},    Norm{Form::add_relu, 1024, 14, 6}, Norm{Form::plain, 1024, 14, 1},
    Norm{Form::relu, 512, 14, 1},     Norm{Form::relu, 512, 7, 5},       Norm{Form::add_relu, 2048, 7, 3},
    Norm{Form::plain, 2048, 7, 1}};

struct Times {
  double forward = 0;
  double backward = 0;
};

// How often the passes move the tensor through memory, masks aside.
constexpr double forward_moves(Form form) { return form == Form::add_relu ? 4 : 3; }
constexpr double backward_moves(Form form) { return form == Form::add_relu ? 7 : 5; }
constexpr double kPairForwardMoves = 5;
constexpr double kPairBackwardMoves = 10;

const char* text(Form form) {
  if (form == Form::plain) return "plain";
  return form == Form::relu ? "relu" : "add+relu";
}

using Forward = std::function<std::vector<at::Tensor>(const at::Tensor&, const at::Tensor&)>;

Times measure(const at::Tensor& x, const at::Tensor& z, const BatchNormInputs& inputs, const Forward& run) {
  Times times;
  times.forward = test::device_milliseconds([&] { run(x, z); });
  const std::vector<at::Tensor> outputs = run(x, z);
  std::vector<at::Tensor> grads;
  grads.reserve(outputs.size());
  for (const auto& output : outputs) grads.push_back(at::randn_like(output));
  std::vector<at::Tensor> leaves{x, inputs.weight, inputs.bias};
  if (z.defined()) leaves.push_back(z);
  times.backward = test::device_milliseconds(
      [&] { torch::autograd::grad(outputs, leaves, grads, /*retain_graph=*/true); });
  return times;
}

std::vector<at::Tensor> stock(const at::Tensor& x, const at::Tensor& z, const BatchNormInputs& inputs,
                              Form form) {
  at::Tensor y = test::stock_batch_norm(x, inputs);
  if (z.defined()) y.add_(z);
  if (form != Form::plain) y.relu_();
  // Two readers of one tensor: autograd adds their gradients.
  return form == Form::add_relu ? std::vector{y.view_as(y), y.view_as(y)} : std::vector{y};
}

// The first norm with its ReLU and max pool, which the sum does not hold.
void print_stem(at::ScalarType dtype, int64_t batch) {
  const at::Tensor x = at::randn({batch, 64, 112, 112}, at::TensorOptions(at::kCUDA).dtype(dtype))
                           .contiguous(at::MemoryFormat::ChannelsLast)
                           .set_requires_grad(true);
  const BatchNormInputs inputs = test::batch_norm_inputs(64, dtype, at::kCUDA);
  const Times own = measure(x, {}, inputs, [&](const at::Tensor& input, const at::Tensor&) {
    return kernels::batch_norm_relu_max_pool_fused(input, inputs, 2);
  });
  const Times theirs = measure(x, {}, inputs, [&](const at::Tensor& input, const at::Tensor&) {
    const at::Tensor y = at::max_pool2d(test::stock_batch_norm(input, inputs).relu_(), 3, 2, 1);
    return std::vector{y.view_as(y), y.view_as(y)};
  });
  std::printf("stem with max pool: forward %.4f PyTorch %.4f; backward %.4f PyTorch %.4f\n", own.forward,
              theirs.forward, own.backward, theirs.backward);
}

// The ends of the four blocks with a norm in the shortcut, beside the two operators for one norm each.
void print_pairs(at::ScalarType dtype, int64_t batch) {
  Times own_sum;
  Times apart_sum;
  for (const auto& norm : kNorms) {
    if (norm.form != Form::plain) continue;
    const auto images = [&] {
      return at::randn({batch, norm.channels, norm.size, norm.size},
                       at::TensorOptions(at::kCUDA).dtype(dtype))
          .contiguous(at::MemoryFormat::ChannelsLast)
          .set_requires_grad(true);
    };
    const at::Tensor x = images();
    const at::Tensor z = images();
    const BatchNormInputs inputs = test::batch_norm_inputs(norm.channels, dtype, at::kCUDA);
    const BatchNormInputs shortcut = test::batch_norm_inputs(norm.channels, dtype, at::kCUDA);
    const Times own = measure(x, z, inputs, [&](const at::Tensor& first, const at::Tensor& second) {
      return kernels::batch_norm_pair_fused(first, inputs, second, shortcut, 2);
    });
    const Times apart = measure(x, z, inputs, [&](const at::Tensor& first, const at::Tensor& second) {
      const at::Tensor residual = kernels::batch_norm_act_fused(second, {}, shortcut, /*relu=*/false, 1)[0];
      return kernels::batch_norm_act_fused(first, residual, inputs, /*relu=*/true, 2);
    });
    const double gigabytes = static_cast<double>(x.nbytes()) * 1e-9;
    std::printf("pair     %4d x %3d^2: forward %.4f (%4.0f) apart %.4f; backward %.4f (%4.0f) apart %.4f\n",
                static_cast<int>(norm.channels), static_cast<int>(norm.size), own.forward,
                gigabytes * kPairForwardMoves / (own.forward * 1e-3), apart.forward, own.backward,
                gigabytes * kPairBackwardMoves / (own.backward * 1e-3), apart.backward);
    own_sum.forward += own.forward;
    own_sum.backward += own.backward;
    apart_sum.forward += apart.forward;
    apart_sum.backward += apart.backward;
  }
  std::printf("all 4 pairs: forward %.3f ms, backward %.3f ms; apart %.3f and %.3f\n", own_sum.forward,
              own_sum.backward, apart_sum.forward, apart_sum.backward);
}

void compare(at::ScalarType dtype, int64_t batch) {
  Times own_sum;
  Times stock_sum;
  std::printf("%s, batch %d; ms a call, GB/s of the own\n", c10::toString(dtype), static_cast<int>(batch));
  for (const auto& norm : kNorms) {
    const at::TensorOptions options = at::TensorOptions(at::kCUDA).dtype(dtype);
    const auto images = [&] {
      return at::randn({batch, norm.channels, norm.size, norm.size}, options)
          .contiguous(at::MemoryFormat::ChannelsLast)
          .set_requires_grad(true);
    };
    const at::Tensor x = images();
    const at::Tensor z = norm.form == Form::add_relu ? images() : at::Tensor();
    const BatchNormInputs inputs = test::batch_norm_inputs(norm.channels, dtype, at::kCUDA);
    const Times own = measure(x, z, inputs, [&](const at::Tensor& input, const at::Tensor& residual) {
      return kernels::batch_norm_act_fused(input, residual, inputs, norm.form != Form::plain,
                                           residual.defined() ? 2 : 1);
    });
    const Times theirs = measure(x, z, inputs, [&](const at::Tensor& input, const at::Tensor& residual) {
      return stock(input, residual, inputs, norm.form);
    });
    const double gigabytes = static_cast<double>(x.nbytes()) * 1e-9;
    std::printf(
        "%-8s %4d x %3d^2 x %2d: forward %.4f (%4.0f) PyTorch %.4f; backward %.4f (%4.0f) PyTorch %.4f\n",
        text(norm.form), static_cast<int>(norm.channels), static_cast<int>(norm.size),
        static_cast<int>(norm.count), own.forward,
        gigabytes * forward_moves(norm.form) / (own.forward * 1e-3), theirs.forward, own.backward,
        gigabytes * backward_moves(norm.form) / (own.backward * 1e-3), theirs.backward);
    const auto count = static_cast<double>(norm.count);
    own_sum.forward += count * own.forward;
    own_sum.backward += count * own.backward;
    stock_sum.forward += count * theirs.forward;
    stock_sum.backward += count * theirs.backward;
  }
  print_stem(dtype, batch);
  print_pairs(dtype, batch);
  std::printf("all 53: forward %.3f ms, backward %.3f ms; PyTorch %.3f and %.3f\n", own_sum.forward,
              own_sum.backward, stock_sum.forward, stock_sum.backward);
}

}  // namespace

TEST_CASE("Time of ResNet-50's batch norms beside PyTorch's", "[.benchmark]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  compare(at::kHalf, 256);
  compare(at::kHalf, 16);
  compare(at::kHalf, 32);
  compare(at::kBFloat16, 256);
}
#endif
