// Replicas on two GPUs: the same numbers as one, and no waiting for a device.
#include <ATen/Context.h>
#include <ATen/ops/tensor.h>

#include "data_parallel_fixture.h"
#include "support/no_sync.h"
#include "support/skip.h"
#include "train/data_parallel.h"

using namespace ampctl;

TEST_CASE("Replicas on two GPUs give the loss and the gradients of one GPU and read nothing on the host",
          "[gpu]") {
  constexpr size_t kGpus = 2;
  if (!at::hasCUDA() || at::getNumGPUs() < kGpus) return test::skip("there are no two GPUs");
  const c10::Device first(at::kCUDA, 0);
  const c10::Device second(at::kCUDA, 1);
  const std::string name = GENERATE("mlp", "lenet");
  INFO(name);
  const auto on = [&](c10::Device device) {
    auto model = test::make_image_model(name);
    model->to(device);
    return model;
  };
  const auto alone = on(first);
  const auto model = on(first);
  train::DataParallel parallel(*model, {second}, on);
  const at::Tensor scale = at::tensor(8.0F).to(first);
  const auto to_gpu = [&](data::Batch batch) {
    batch.images = batch.images.to(first);
    batch.targets = batch.targets.to(first);
    return batch;
  };
  const auto step = [&](int64_t size) {
    const data::Batch batch = to_gpu(test::make_image_batch(size));
    at::Tensor loss;
    {
      const test::NoSync no_sync;
      loss = parallel.run(batch, scale, test::Body{});
    }
    CHECK(loss.device() == first);
    test::expect_close(loss, test::Body{}(*alone, batch, scale), 1e-5);
  };
  // Libraries may wait once, when they are set up on a device.
  const data::Batch warm_up = to_gpu(test::make_image_batch(4));
  parallel.run(warm_up, scale, test::Body{});
  test::Body{}(*alone, warm_up, scale);
  for (const int64_t size : {7, 1, 4}) step(size);
  test::expect_same_gradients(*model, *alone, 1e-4);
}
