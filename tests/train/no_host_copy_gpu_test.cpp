// Between logging steps nothing is copied back from the device: seen by CUPTI, through PyTorch's profiler.
#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "data/loader.h"
#include "fixture.h"
#include "support/catch.h"
#include "support/no_sync.h"
#include "support/skip.h"

namespace ampctl {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

constexpr int kWarmup = 3;
constexpr int kSteps = 10;

std::vector<std::string> device_activity(const std::function<void()>& work) {
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities{ActivityType::CPU, ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  work();
  const auto result = profiler::disableProfiler();
  std::vector<std::string> names;
  for (const auto& event : result->events()) {
    if (event.deviceType() == c10::DeviceType::CUDA) names.push_back(event.name());
  }
  return names;
}

int64_t count(const std::vector<std::string>& names, const std::string& part) {
  return std::count_if(names.begin(), names.end(),
                       [&](const std::string& name) { return name.find(part) != std::string::npos; });
}

TEST_CASE("Between logging steps no step copies anything to the host or waits for the device", "[gpu]") {
  if (!at::hasCUDA()) return test::skip("there is no GPU");
  test::SetupOptions options;
  options.model = "resnet18";
  options.precision = "float16";
  options.clip_grad_norm = 1.0;
  options.device = c10::Device(c10::kCUDA, 0);
  options.lr = 1e-3;
  test::Setup setup(options);

  config::DataConfig data;
  data.train.format = "synthetic";
  data.train.num_samples = 8 * (kWarmup + kSteps);
  data.train.image_size = 32;
  data.train.num_classes = test::kClasses;
  data::LoaderOptions loader_options;
  loader_options.batch_size = 8;
  loader_options.device = options.device;
  loader_options.dtype = c10::kHalf;
  data::Loader loader(data::open_datasets(data, 0).train, {}, loader_options, nullptr);
  loader.begin_epoch(0, 0);
  for (int step = 0; step < kWarmup; ++step) setup.step->run({*loader.next()});
  (void)setup.rows();

  const auto steps = device_activity([&] {
    const test::NoSync no_sync;
    for (int step = 0; step < kSteps; ++step) setup.step->run({*loader.next()});
  });
  CHECK(count(steps, "DtoH") == 0);
  CHECK(count(steps, "gemm") + count(steps, "conv") + count(steps, "fprop") > 0);

  const auto drain = device_activity([&] { CHECK(setup.rows().size() == kSteps); });
  CHECK(count(drain, "DtoH") > 0);
}

}  // namespace
}  // namespace ampctl
