#include "train/data_parallel.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include "amp/autocast.h"
#include "base/error.h"
#include "data_parallel_fixture.h"
#include "model/models.h"
#include "nn/layer_tree.h"
#include "support/catch.h"

using namespace ampctl;
using test::Body;
using test::expect_close;
using test::expect_same_gradients;
using test::make_image_batch;
using test::make_image_model;

namespace {

// Values of the replicas' own must not matter: another seed.
train::DataParallel on_two_cpus(nn::Layer& model, const std::string& name, size_t replicas = 1) {
  return {model, std::vector<c10::Device>(replicas, at::kCPU),
          [name](c10::Device) { return make_image_model(name, /*seed=*/77); }};
}

}  // namespace

TEST_CASE("Two replicas give the loss and the gradients of one model on the whole micro-batch") {
  const std::string name = GENERATE("mlp", "lenet");
  INFO(name);
  const auto alone = make_image_model(name);
  const auto model = make_image_model(name);
  auto parallel = on_two_cpus(*model, name);
  const at::Tensor scale = at::tensor(8.0F);
  const Body body{0.125};
  // An odd number, one sample for two replicas, and accumulation over three micro-batches.
  for (const int64_t size : {7, 1, 4}) {
    const data::Batch batch = make_image_batch(size);
    expect_close(parallel.run(batch, scale, body), body(*alone, batch, scale));
  }
  expect_same_gradients(*model, *alone);
}

TEST_CASE("Replicas take the model's memory order, and the loss and gradients stay") {
  const auto alone = make_image_model("lenet");
  const auto model = make_image_model("lenet");
  nn::to_channels_last(*model);
  auto parallel = on_two_cpus(*model, "lenet");
  const data::Batch batch = make_image_batch(6);
  std::atomic<int> checked = 0;
  const at::Tensor loss =
      parallel.run(batch, {}, [&](nn::Layer& replica, const data::Batch& part, const at::Tensor& scale) {
        const auto weights = replica.named_parameters();
        // 16 filters of 6 channels and 5x5 values, the channels side by side.
        if (weights["conv2.weight"].strides() == at::IntArrayRef{150, 1, 30, 6}) ++checked;
        return Body{}(replica, part, scale);
      });
  CHECK(checked == 2);
  expect_close(loss, Body{}(*alone, batch, {}));
  expect_same_gradients(*model, *alone);
}

TEST_CASE("Replicas follow what the optimizer did to the model, and forget their gradients") {
  const auto alone = make_image_model("mlp");
  const auto model = make_image_model("mlp");
  auto parallel = on_two_cpus(*model, "mlp", /*replicas=*/2);
  for (int step = 0; step < 3; ++step) {
    const data::Batch batch = make_image_batch(8);
    expect_close(parallel.run(batch, {}, Body{}), Body{}(*alone, batch, {}));
    expect_same_gradients(*model, *alone, /*tolerance=*/1e-5);
    const at::NoGradGuard no_grad;
    for (const auto& one : {alone, model}) {
      for (auto& parameter : one->parameters()) parameter.sub_(parameter.grad(), 0.01);
      one->zero_grad();
    }
  }
}

TEST_CASE("Batch norm's buffers are those of the first replica's part, which the others get too") {
  const auto first = make_image_model("resnet18");
  const auto model = make_image_model("resnet18");
  const auto second = make_image_model("resnet18");
  auto parallel = on_two_cpus(*model, "resnet18");
  for (int step = 0; step < 2; ++step) {
    const data::Batch batch = make_image_batch(4, /*channels=*/3);
    // As torch.nn.DataParallel: every replica starts from the model's buffers, the first one's are kept.
    for (auto& buffer : second->named_buffers()) buffer.value().copy_(first->named_buffers()[buffer.key()]);
    std::mutex mutex;
    std::vector<at::Tensor> means(2);
    parallel.run(batch, {}, [&](nn::Layer& replica, const data::Batch& part, const at::Tensor& scale) {
      at::Tensor loss = Body{}(replica, part, scale);
      const std::lock_guard<std::mutex> lock(mutex);
      means[&replica == model.get() ? 0 : 1] = replica.named_buffers()["bn1.running_mean"].clone();
      return loss;
    });
    (*first)(batch.images.narrow(0, 0, 2));
    (*second)(batch.images.narrow(0, 2, 2));
    expect_close(means[0], first->named_buffers()["bn1.running_mean"]);
    expect_close(means[1], second->named_buffers()["bn1.running_mean"]);
    const auto buffers = model->named_buffers();
    for (const auto& item : first->named_buffers()) {
      INFO(item.key());
      expect_close(buffers[item.key()].to(at::kDouble), item.value().to(at::kDouble));
    }
  }
}

TEST_CASE("A replica's thread enters autocast by itself and leaves it again") {
  const auto alone = make_image_model("lenet");
  const auto model = make_image_model("lenet");
  auto parallel = on_two_cpus(*model, "lenet");
  const data::Batch batch = make_image_batch(6);
  std::mutex mutex;
  std::vector<at::ScalarType> types;
  const auto output_types = [&](bool autocast) {
    types.clear();
    parallel.run(batch, {}, [&](nn::Layer& replica, const data::Batch& part, const at::Tensor& scale) {
      at::Tensor loss = Body{1, autocast}(replica, part, scale);
      const amp::Autocast region(at::kCPU, at::kBFloat16, autocast);
      const std::lock_guard<std::mutex> lock(mutex);
      types.push_back(replica(part.images).scalar_type());
      return loss;
    });
    return types;
  };
  CHECK(output_types(true) == std::vector<at::ScalarType>(2, at::kBFloat16));
  CHECK(output_types(false) == std::vector<at::ScalarType>(2, at::kFloat));
  model->zero_grad();
  const Body half{1, /*autocast=*/true};
  // Loss and gradients of single samples are the same; their sums in bfloat16 are rounded elsewhere.
  expect_close(parallel.run(batch, {}, half), half(*alone, batch, {}), 0x1p-8);
  expect_same_gradients(*model, *alone, 0x1p-6);
}

TEST_CASE("Threads stay from step to step, and the first replica works in the caller's") {
  const auto model = make_image_model("mlp");
  auto parallel = on_two_cpus(*model, "mlp", /*replicas=*/2);
  const auto caller = std::this_thread::get_id();
  std::mutex mutex;
  std::set<std::thread::id> others;
  bool first_in_caller = true;
  for (int step = 0; step < 3; ++step) {
    parallel.run(make_image_batch(6), {},
                 [&](nn::Layer& replica, const data::Batch& part, const at::Tensor&) {
                   const std::lock_guard<std::mutex> lock(mutex);
                   const auto here = std::this_thread::get_id();
                   if (&replica == model.get()) {
                     first_in_caller = first_in_caller && here == caller;
                   } else {
                     others.insert(here);
                   }
                   return part.images.sum();
                 });
  }
  CHECK(first_in_caller);
  CHECK(others.size() == 2);
  CHECK(others.count(caller) == 0);
}

TEST_CASE("Replicas train and evaluate as the model does") {
  const auto model = make_image_model("resnet18");
  auto parallel = on_two_cpus(*model, "resnet18");
  for (const bool training : {false, true}) {
    model->train(training);
    parallel.run(make_image_batch(4, 3), {},
                 [&](nn::Layer& replica, const data::Batch& part, const at::Tensor&) {
                   if (replica.is_training() != training) throw usage_error("another mode");
                   return part.images.sum();
                 });
  }
}

TEST_CASE("What a replica throws comes out with replica and device named, and the next step works") {
  const auto model = make_image_model("mlp");
  auto parallel = on_two_cpus(*model, "mlp");
  const auto throwing = [&](bool first, const auto& raise) {
    return [&, first, raise](nn::Layer& replica, const data::Batch& part, const at::Tensor&) {
      if ((&replica == model.get()) == first) raise();
      return part.images.sum();
    };
  };
  const auto usage = [] { throw usage_error("too small an image"); };
  const auto library = [] { TORCH_CHECK(false, "shapes do not fit"); };
  const auto other = [] { throw std::length_error("too long"); };
  try {
    parallel.run(make_image_batch(4), {}, throwing(false, usage));
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    CHECK(std::string(error.what()) == "replica 1 on cpu: too small an image");
  }
  try {
    parallel.run(make_image_batch(4), {}, throwing(true, other));
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::internal);
    CHECK(std::string(error.what()) == "replica 0 on cpu: too long");
  }
  try {
    parallel.run(make_image_batch(4), {}, throwing(false, library));
    FAIL("expected an error");
  } catch (const c10::Error& error) {
    CHECK(std::string(error.what_without_backtrace()).find("shapes do not fit") != std::string::npos);
    CHECK(std::string(error.what_without_backtrace()).find("replica 1 on cpu") != std::string::npos);
  }
  const auto alone = make_image_model("mlp");
  const data::Batch batch = make_image_batch(4);
  model->zero_grad();
  expect_close(parallel.run(batch, {}, Body{}), Body{}(*alone, batch, {}));
  expect_same_gradients(*model, *alone);
}

TEST_CASE("A factory that builds another model is refused by the name of what differs") {
  const auto model = make_image_model("mlp");
  const auto build = [&](const std::string& name) {
    return train::DataParallel(*model, {at::kCPU}, [name](c10::Device) { return make_image_model(name); });
  };
  CHECK_THROWS_AS(build("lenet"), Error);
  config::ModelConfig wider;
  wider.name = "mlp";
  wider.hidden_sizes = {17};
  try {
    const train::DataParallel parallel(*model, {at::kCPU}, [&](c10::Device) {
      return model::make_model(wider, {1, 16, 16}, test::kParallelClasses);
    });
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("'fc1.weight'") != std::string::npos);
  }
}
