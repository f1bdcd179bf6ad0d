// Which type autocast makes an operator run in, by the lists of PyTorch's documentation ("Autocast Op
// Reference"); arguments after torch.testing._internal.autocast_test_lists. Results must be bit-equal to
// manual casts.
#include <functional>

#include <ATen/ATen.h>

#include "amp/autocast.h"
#include "support/devices.h"
#include "support/matchers.h"

using namespace ampctl;
using amp::Autocast;

namespace {

using Arguments = std::vector<at::Tensor>;
using Call = std::function<at::Tensor(const Arguments&)>;

struct Op {
  std::string name;
  Arguments arguments;
  Call call;
};

class Inputs {
 public:
  explicit Inputs(c10::Device device) : options_(at::TensorOptions(device)) {}
  at::Tensor random(at::IntArrayRef shape) const { return at::rand(shape, options_).mul(0.8).add(0.1); }
  at::Tensor vector() const { return random({8}); }
  at::Tensor matrix() const { return random({8, 8}); }
  at::Tensor batch() const { return random({8, 8, 8}); }
  at::Tensor image() const { return random({8, 8, 8, 8}); }
  at::Tensor classes() const { return at::zeros({8}, options_.dtype(at::kLong)); }

 private:
  at::TensorOptions options_;
};

// Matrix products and convolutions: 16 bit on both devices.
std::vector<Op> low_precision_ops(const Inputs& in) {
  const auto matrices = [&](size_t count) {
    Arguments result;
    for (size_t i = 0; i < count; ++i) result.push_back(in.matrix());
    return result;
  };
  return {
      {"conv1d", {in.batch(), in.batch()}, [](const Arguments& a) { return at::conv1d(a[0], a[1]); }},
      {"conv2d", {in.image(), in.image()}, [](const Arguments& a) { return at::conv2d(a[0], a[1]); }},
      {"conv3d",
       {in.random({4, 4, 4, 4, 4}), in.random({4, 4, 4, 4, 4})},
       [](const Arguments& a) { return at::conv3d(a[0], a[1]); }},
      {"conv_transpose2d",
       {in.image(), in.image()},
       [](const Arguments& a) { return at::conv_transpose2d(a[0], a[1]); }},
      {"linear", matrices(2), [](const Arguments& a) { return at::linear(a[0], a[1]); }},
      {"linear with bias",
       {in.matrix(), in.matrix(), in.vector()},
       [](const Arguments& a) { return at::linear(a[0], a[1], a[2]); }},
      {"matmul", matrices(2), [](const Arguments& a) { return at::matmul(a[0], a[1]); }},
      {"mm", matrices(2), [](const Arguments& a) { return at::mm(a[0], a[1]); }},
      {"addmm", matrices(3), [](const Arguments& a) { return at::addmm(a[0], a[1], a[2]); }},
      {"bmm", {in.batch(), in.batch()}, [](const Arguments& a) { return at::bmm(a[0], a[1]); }},
      {"baddbmm",
       {in.batch(), in.batch(), in.batch()},
       [](const Arguments& a) { return at::baddbmm(a[0], a[1], a[2]); }},
      {"addbmm",
       {in.matrix(), in.batch(), in.batch()},
       [](const Arguments& a) { return at::addbmm(a[0], a[1], a[2]); }},
      {"prelu", {in.vector(), in.random({1})}, [](const Arguments& a) { return at::prelu(a[0], a[1]); }},
      {"scaled_dot_product_attention",
       {in.image(), in.image(), in.image()},
       [](const Arguments& a) { return at::scaled_dot_product_attention(a[0], a[1], a[2]); }},
  };
}

// Losses: float32 on both devices.
std::vector<Op> float32_losses(const Inputs& in) {
  const at::Tensor classes = in.classes();
  return {
      {"mse_loss", {in.matrix(), in.matrix()}, [](const Arguments& a) { return at::mse_loss(a[0], a[1]); }},
      {"l1_loss", {in.matrix(), in.matrix()}, [](const Arguments& a) { return at::l1_loss(a[0], a[1]); }},
      {"smooth_l1_loss",
       {in.matrix(), in.matrix()},
       [](const Arguments& a) { return at::smooth_l1_loss(a[0], a[1]); }},
      {"nll_loss", {in.matrix()}, [classes](const Arguments& a) { return at::nll_loss(a[0], classes); }},
      {"binary_cross_entropy_with_logits",
       {in.matrix(), in.matrix()},
       [](const Arguments& a) { return at::binary_cross_entropy_with_logits(a[0], a[1]); }},
      {"margin_ranking_loss",
       {in.matrix(), in.matrix(), in.vector()},
       [](const Arguments& a) { return at::margin_ranking_loss(a[0], a[1], a[2]); }},
      {"triplet_margin_loss",
       {in.matrix(), in.matrix(), in.matrix()},
       [](const Arguments& a) { return at::triplet_margin_loss(a[0], a[1], a[2]); }},
  };
}

// float32 on CUDA, in the inputs' type on the CPU.
std::vector<Op> float32_on_cuda_ops(const Inputs& in) {
  const auto one = [&](const std::string& name, at::Tensor (*function)(const at::Tensor&)) {
    return Op{name, {in.vector()}, [function](const Arguments& a) { return function(a[0]); }};
  };
  return {
      one("exp", &at::exp),
      one("expm1", &at::expm1),
      one("log", &at::log),
      one("log1p", &at::log1p),
      one("log2", &at::log2),
      one("acos", &at::acos),
      one("cosh", &at::cosh),
      one("tan", &at::tan),
      one("reciprocal", &at::reciprocal),
      one("rsqrt", &at::rsqrt),
      {"pow", {in.vector()}, [](const Arguments& a) { return a[0].pow(1.7); }},
      {"softmax", {in.matrix()}, [](const Arguments& a) { return at::softmax(a[0], 1); }},
      {"log_softmax", {in.matrix()}, [](const Arguments& a) { return at::log_softmax(a[0], 1); }},
      {"layer_norm", {in.matrix()}, [](const Arguments& a) { return at::layer_norm(a[0], {8}); }},
      {"sum", {in.matrix()}, [](const Arguments& a) { return a[0].sum(); }},
      {"cumsum", {in.vector()}, [](const Arguments& a) { return at::cumsum(a[0], 0); }},
      {"norm", {in.vector()}, [](const Arguments& a) { return at::norm(a[0]); }},
      {"logsumexp", {in.matrix()}, [](const Arguments& a) { return at::logsumexp(a[0], {1}); }},
  };
}

// Mixed types are brought to the widest.
std::vector<Op> promoting_ops(const Inputs& in, c10::Device device) {
  std::vector<Op> ops{
      {"cat",
       {in.vector(), in.vector()},
       [](const Arguments& a) {
         return at::cat({a[0], a[1]});
       }},
      {"stack",
       {in.vector(), in.vector()},
       [](const Arguments& a) {
         return at::stack({a[0], a[1]});
       }},
  };
  if (device.is_cuda()) {
    ops.push_back({"addcmul", {in.vector(), in.vector(), in.vector()}, [](const Arguments& a) {
                     return at::addcmul(a[0], a[1], a[2]);
                   }});
    ops.push_back(
        {"atan2", {in.vector(), in.vector()}, [](const Arguments& a) { return at::atan2(a[0], a[1]); }});
    ops.push_back(
        {"dot", {in.vector(), in.vector()}, [](const Arguments& a) { return at::dot(a[0], a[1]); }});
  }
  return ops;
}

Arguments cast(const Arguments& arguments, at::ScalarType dtype) {
  Arguments result;
  for (const auto& argument : arguments) result.push_back(argument.to(dtype));
  return result;
}

// Under autocast to `low`, `op` on arguments of type `given` must equal `op` run by hand in type `runs_in`.
void check(const Op& op, c10::Device device, at::ScalarType low, at::ScalarType given,
           at::ScalarType runs_in) {
  INFO(op.name << " in " << runs_in << " under autocast to " << low);
  const Arguments arguments = cast(op.arguments, given);
  at::Tensor output;
  {
    const Autocast autocast(device.type(), low);
    output = op.call(arguments);
  }
  CHECK(output.scalar_type() == runs_in);
  CHECK(at::equal(output, op.call(cast(arguments, runs_in))));
}

void check_lists(c10::Device device) {
  const Inputs in(device);
  for (const auto low : {at::kHalf, at::kBFloat16}) {
    for (const auto& op : low_precision_ops(in)) check(op, device, low, at::kFloat, low);
    for (const auto& op : float32_losses(in)) check(op, device, low, low, at::kFloat);
    const auto elsewhere = device.is_cuda() ? at::kFloat : low;
    for (const auto& op : float32_on_cuda_ops(in)) check(op, device, low, low, elsewhere);
  }
}

void check_promotion(c10::Device device) {
  const Inputs in(device);
  for (const auto low : {at::kHalf, at::kBFloat16}) {
    for (const auto& op : promoting_ops(in, device)) {
      INFO(op.name << " under autocast to " << low);
      Arguments mixed = op.arguments;
      mixed[1] = mixed[1].to(low);
      const Autocast autocast(device.type(), low);
      const at::Tensor output = op.call(mixed);
      CHECK(output.scalar_type() == at::kFloat);
      const Autocast off(device.type(), low, /*enabled=*/false);
      CHECK(at::equal(output, op.call(cast(mixed, at::kFloat))));
    }
  }
}

void check_other_types_are_left_alone(c10::Device device) {
  const Inputs in(device);
  const at::Tensor matrix = in.matrix();
  const Autocast autocast(device.type(), at::kHalf);
  CHECK(at::mm(matrix.to(at::kDouble), matrix.to(at::kDouble)).scalar_type() == at::kDouble);
  const at::Tensor integers = at::ones({3}, at::TensorOptions(device).dtype(at::kInt));
  CHECK(at::add(integers, integers).scalar_type() == at::kInt);
  CHECK(at::add(matrix, matrix).scalar_type() == at::kFloat);
  CHECK(at::relu(matrix.to(at::kHalf)).scalar_type() == at::kHalf);
}

}  // namespace

AMPCTL_DEVICE_TEST_CASE(check_lists, "Listed operators give the listed type, bit-equal to manual casts")
AMPCTL_DEVICE_TEST_CASE(check_promotion, "Operators with mixed types run in the widest one")
AMPCTL_DEVICE_TEST_CASE(check_other_types_are_left_alone,
                        "Double, integers and operators outside of the lists keep their types")

TEST_CASE("Binary cross-entropy on probabilities is refused under autocast on CUDA", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  const at::Tensor probabilities = at::rand({4}, at::kCUDA);
  const Autocast autocast(c10::kCUDA, at::kHalf);
  CHECK_THROWS_WITH(at::binary_cross_entropy(probabilities, probabilities),
                    test::ContainsSubstring("unsafe to autocast"));
}

TEST_CASE("Binary cross-entropy on probabilities runs in float32 under autocast on the CPU") {
  const at::Tensor probabilities = at::rand({4}).mul(0.8).add(0.1).to(at::kBFloat16);
  const Autocast autocast(c10::kCPU, at::kBFloat16);
  CHECK(at::binary_cross_entropy(probabilities, probabilities).scalar_type() == at::kFloat);
}
