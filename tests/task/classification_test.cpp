#include "task/classification.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "amp/autocast.h"
#include "support/catch.h"
#include "support/reference_file.h"
#include "support/skip.h"

using namespace ampctl;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Hits {
  double top1;
  double top5;
};

Hits hits(const std::vector<float>& row, int64_t target) {
  const auto classes = static_cast<int64_t>(row.size());
  const at::Tensor sums = task::metric_sums(at::tensor(row).view({1, classes}), at::tensor({target}));
  return {sums[task::kTop1].item<double>(), sums[task::kTop5].item<double>()};
}

}  // namespace

TEST_CASE("Loss, gradients and hits agree with torch.nn.functional and torch.topk") {
  if (!test::python_has({"torch", "safetensors"})) return test::skip("Python has no torch or safetensors");
  const test::TempDir folder;
  const auto path = folder.path() / "task.safetensors";
  test::run_reference("classification_reference.py", {path.string()});
  const auto reference = test::read_tensors(path);
  const at::Tensor& targets = reference.at("targets");

  for (const std::string dtype : {"float32", "float64", "float16", "bfloat16"}) {
    for (const std::string smoothing : {"0.0", "0.1"}) {
      INFO(dtype << " " << smoothing);
      const at::Tensor logits = reference.at(dtype + ".logits").clone().requires_grad_();
      const at::Tensor loss = task::loss_sum(logits, targets, {.label_smoothing = std::stod(smoothing)});
      loss.backward();
      CHECK(loss.dim() == 0);
      CHECK(loss.scalar_type() == (dtype == "float64" ? at::kDouble : at::kFloat));
      CHECK(at::equal(loss, reference.at(dtype + ".loss" + smoothing)));
      CHECK(at::equal(logits.grad(), reference.at(dtype + ".grad" + smoothing)));
    }
  }

  const at::Tensor sums = task::metric_sums(reference.at("float64.logits"), targets);
  CHECK(sums.scalar_type() == at::kDouble);
  CHECK(sums.numel() == task::kMetricCount);
  CHECK(test::relative_l2(sums[task::kLoss], reference.at("float64.loss0.0")) < 1e-12);
  CHECK(at::equal(sums[task::kTop1], reference.at("top1")));
  CHECK(at::equal(sums[task::kTop5], reference.at("top5")));
  CHECK(sums[task::kSamples].item<double>() == static_cast<double>(targets.size(0)));

  const at::Tensor few = task::metric_sums(reference.at("few.logits"), reference.at("few.targets"));
  CHECK(at::equal(few[task::kTop1], reference.at("few.top1")));
  CHECK(few[task::kTop5].item<double>() == static_cast<double>(targets.size(0)));
}

TEST_CASE("The loss is computed in float32 inside an autocast region") {
  const amp::Autocast region(at::kCPU, at::kBFloat16);
  const at::Tensor logits = at::randn({8, 10}).to(at::kBFloat16).requires_grad_();
  const at::Tensor targets = at::arange(8);
  const at::Tensor loss = task::loss_sum(logits, targets, {.label_smoothing = 0.1});
  CHECK(loss.scalar_type() == at::kFloat);
  const at::Tensor log_probabilities = logits.detach().to(at::kDouble).log_softmax(1);
  const at::Tensor target_terms = log_probabilities.gather(1, targets.unsqueeze(1)).sum();
  // 1 - s of the weight on the target and s spread evenly over all ten classes.
  const double expected = -(0.9 * target_terms + 0.1 * log_probabilities.mean(1).sum()).item<double>();
  CHECK(loss.item<double>() == Approx(expected).epsilon(1e-5));
}

TEST_CASE("Equal logits rank by class, so that a model which answers the same for all scores by chance") {
  const at::Tensor logits = at::zeros({10, 10});
  const at::Tensor sums = task::metric_sums(logits, at::arange(10));
  CHECK(sums[task::kTop1].item<double>() == 1.0);
  CHECK(sums[task::kTop5].item<double>() == 5.0);
  CHECK(hits({1, 3, 3, 0, 0, 0}, 1).top1 == 1.0);
  CHECK(hits({1, 3, 3, 0, 0, 0}, 2).top1 == 0.0);
}

TEST_CASE("A row with a NaN counts as wrong whatever its target, and infinities rank as numbers") {
  for (int64_t target = 0; target < 3; ++target) {
    CHECK(hits({kNan, 9, 1}, target).top1 == 0.0);
    CHECK(hits({kNan, 9, 1}, target).top5 == 0.0);
  }
  CHECK(hits({0, 1, 2, 3, 4, 5, kNan}, 5).top5 == 0.0);
  CHECK(hits({0, kInf, 1}, 1).top1 == 1.0);
  CHECK(hits({0, -kInf, 1}, 1).top1 == 0.0);
}

TEST_CASE("Metrics take no part in gradients and sum the loss in float64") {
  const at::Tensor logits = at::zeros({1000, 2}).requires_grad_();
  const at::Tensor sums = task::metric_sums(logits, at::zeros({1000}, at::kLong));
  CHECK_FALSE(sums.requires_grad());
  // Each sample's float32 loss is ln 2; a float32 sum of a thousand of them would be off by 1e-5.
  CHECK(sums[task::kLoss].item<double>() / 1000.0 == Approx(std::log(2.0)).epsilon(1e-7));
}
