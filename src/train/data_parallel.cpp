#include "train/data_parallel.h"

#include <exception>
#include <future>
#include <string>
#include <utility>

#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "base/error.h"

namespace ampctl::train {
namespace {

at::Tensor to_device(const at::Tensor& value, c10::Device device) {
  return value.defined() ? value.to(value.options().device(device), /*non_blocking=*/true) : value;
}

/// The caller's stream there: what it enqueues before and after a replica's work stays in order with it.
c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

Error factory_error(const std::string& what) {
  return {ErrorKind::internal, "data_parallel: the replica's " + what + " differs from the model's"};
}

template <typename Items>
void require_same(const Items& model, const Items& replica) {
  if (model.size() != replica.size()) throw factory_error("number of tensors");
  for (size_t i = 0; i < model.size(); ++i) {
    const bool same = model[i].key() == replica[i].key() &&
                      model[i].value().sizes() == replica[i].value().sizes() &&
                      model[i].value().scalar_type() == replica[i].value().scalar_type() &&
                      model[i].value().requires_grad() == replica[i].value().requires_grad();
    if (!same) throw factory_error("'" + replica[i].key() + "'");
  }
}

nn::LayerPtr make_replica(const nn::Layer& model, const DataParallel::ModelFactory& factory,
                          c10::Device device) {
  nn::LayerPtr replica = factory(device);
  require_same(model.named_parameters(), replica->named_parameters());
  require_same(model.named_buffers(), replica->named_buffers());
  return replica;
}

/// `failure` with the replica named in its message.
std::exception_ptr named(size_t replica, c10::Device device, const std::exception_ptr& failure) {
  const std::string where = "replica " + std::to_string(replica) + " on " + device.str();
  try {
    std::rethrow_exception(failure);
  } catch (c10::Error& error) {
    error.add_context("in " + where);
    return std::current_exception();
  } catch (const Error& error) {
    return std::make_exception_ptr(Error(error.kind(), where + ": " + error.what()));
  } catch (const std::exception& error) {
    return std::make_exception_ptr(Error(ErrorKind::internal, where + ": " + error.what()));
  }
}

}  // namespace

DataParallel::Replica::Replica(nn::LayerPtr replica, c10::Device place,
                               const std::vector<at::Tensor>& model_parameters,
                               const std::vector<at::Tensor>& model_buffers)
    : model(std::move(replica)),
      device(place),
      parameters(model_parameters, place),
      buffers(model_buffers, place),
      gradients(model_parameters, place) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> own_parameters = model->parameters();
  for (size_t i = 0; i < own_parameters.size(); ++i) {
    own_parameters[i].set_data(parameters.views()[i]);
    // A gradient that is there is added to in place.
    if (own_parameters[i].requires_grad()) own_parameters[i].mutable_grad() = gradients.views()[i];
  }
  std::vector<at::Tensor> own_buffers = model->buffers();
  for (size_t i = 0; i < own_buffers.size(); ++i) own_buffers[i].set_data(buffers.views()[i]);
}

DataParallel::DataParallel(nn::Layer& model, const std::vector<c10::Device>& devices,
                           const ModelFactory& factory)
    : model_(model),
      model_parameters_(model.parameters()),
      model_buffers_(model.buffers()),
      device_(model_parameters_.at(0).device()),
      parameters_(model_parameters_, device_),
      buffers_(model_buffers_, device_) {
  for (const c10::Device device : devices) {
    replicas_.push_back(std::make_unique<Replica>(make_replica(model, factory, device), device,
                                                  model_parameters_, model_buffers_));
  }
}

at::Tensor DataParallel::run(const data::Batch& batch, const at::Tensor& loss_scale,
                             const ForwardBackward& body) {
  broadcast();
  const std::vector<data::Batch> parts = scatter(batch);
  const at::ThreadLocalState state;
  std::vector<std::future<at::Tensor>> results;
  for (size_t i = 1; i < parts.size(); ++i) {
    Replica& replica = *replicas_[i - 1];
    const at::Tensor scale = to_device(loss_scale, replica.device);
    const c10::Stream stream = current_stream(replica.device);
    results.push_back(replica.thread.start([&replica, state, stream, scale, body, part = parts[i]] {
      const at::ThreadLocalStateGuard same_state(state);
      const c10::StreamGuard same_stream(stream);
      return body(*replica.model, part, scale);
    }));
  }

  std::exception_ptr failure;
  at::Tensor total;
  try {
    total = body(model_, parts.front(), loss_scale);
  } catch (...) {
    failure = named(0, device_, std::current_exception());
  }
  std::vector<at::Tensor> losses;
  for (size_t i = 0; i < results.size(); ++i) {
    try {
      losses.push_back(results[i].get());
    } catch (...) {
      if (!failure) failure = named(i + 1, replicas_[i]->device, std::current_exception());
    }
  }
  if (failure) std::rethrow_exception(failure);
  for (size_t i = 0; i < losses.size(); ++i) {
    total = total + to_device(losses[i], device_);
    add_gradients(*replicas_[i]);
  }
  return total;
}

void DataParallel::broadcast() {
  parameters_.copy_from(model_parameters_);
  buffers_.copy_from(model_buffers_);
  for (const auto& replica : replicas_) {
    replica->parameters.copy_from(parameters_);
    replica->buffers.copy_from(buffers_);
    replica->gradients.zero_();
    if (replica->model->is_training() != model_.is_training()) replica->model->train(model_.is_training());
  }
}

std::vector<data::Batch> DataParallel::scatter(const data::Batch& batch) const {
  const auto count = static_cast<int64_t>(replicas_.size()) + 1;
  const std::vector<at::Tensor> images = batch.images.chunk(count);
  const std::vector<at::Tensor> targets = batch.targets.chunk(count);
  std::vector<data::Batch> parts(images.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const c10::Device device = i == 0 ? device_ : replicas_[i - 1]->device;
    parts[i].images = to_device(images[i], device);
    parts[i].targets = to_device(targets[i], device);
    parts[i].size = images[i].size(0);
  }
  return parts;
}

void DataParallel::add_gradients(const Replica& replica) {
  const at::NoGradGuard no_grad;
  parameters_.copy_from(replica.gradients);
  std::vector<at::Tensor> sums;
  std::vector<at::Tensor> arrived;
  for (size_t i = 0; i < model_parameters_.size(); ++i) {
    if (!model_parameters_[i].grad().defined()) continue;
    sums.push_back(model_parameters_[i].grad());
    arrived.push_back(parameters_.views()[i]);
  }
  if (!sums.empty()) at::_foreach_add_(sums, arrived);
}

}  // namespace ampctl::train
