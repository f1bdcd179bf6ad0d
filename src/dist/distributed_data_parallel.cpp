#include "dist/distributed_data_parallel.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "base/error.h"
#include "dist/collectives.h"
#include "dist/consistency.h"
#include "dist/gradient_average.h"
#include "dist/gradient_compression.h"
#include "dist/peers.h"

namespace ampctl::dist {
namespace {

constexpr int64_t kMiB = 1 << 20;

NamedTensors without_repetitions(const NamedTensors& tensors) {
  std::set<const c10::TensorImpl*> seen;
  NamedTensors unique;
  for (const auto& named : tensors) {
    if (seen.insert(named.second.unsafeGetTensorImpl()).second) unique.push_back(named);
  }
  return unique;
}

std::vector<at::Tensor> values(const NamedTensors& tensors) {
  std::vector<at::Tensor> list;
  list.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) list.push_back(tensor);
  return list;
}

std::string description(const at::Tensor& tensor) {
  std::string text = c10::getDtypeNames(tensor.scalar_type()).first + " [";
  for (int64_t i = 0; i < tensor.dim(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(tensor.size(i));
  text += "]";
  if (!tensor.is_contiguous())
    text += tensor.is_contiguous(at::MemoryFormat::ChannelsLast) ? " channels_last" : " strided";
  return text + (tensor.requires_grad() ? "" : " without gradient");
}

void verify(const World& world, const NamedTensors& parameters, const std::vector<at::Tensor>& buffers) {
  Facts facts;
  facts.reserve(parameters.size() + buffers.size());
  for (const auto& [name, tensor] : parameters) facts.emplace_back(name, description(tensor));
  for (size_t i = 0; i < buffers.size(); ++i) {
    facts.emplace_back("buffer " + std::to_string(i), description(buffers[i]));
  }
  require_equal(world, facts, "the model's parameters");
}

// Gloo has no mean among its reductions.
bool averages(const World& world) {
  return world.device().is_cuda() && world.group()->getBackend(c10::kCUDA)->getBackendName() == "nccl";
}

std::shared_ptr<c10d::Reducer> make_reducer(const World& world, const NamedTensors& parameters,
                                            const DdpOptions& options) {
  const auto params = values(parameters);
  const auto cap = static_cast<int64_t>(options.bucket_cap_mb * static_cast<double>(kMiB));
  auto [buckets, caps] = c10d::compute_bucket_assignment_by_size(
      params, {static_cast<size_t>(c10d::kDefaultFirstBucketBytes), static_cast<size_t>(cap)});
  // Gradients come in the reverse of the order in which parameters were made.
  std::reverse(buckets.begin(), buckets.end());
  std::reverse(caps.begin(), caps.end());
  std::unordered_map<size_t, std::string> names;
  for (size_t i = 0; i < parameters.size(); ++i) names[i] = parameters[i].first;
  auto reducer = std::make_shared<c10d::Reducer>(
      params, std::move(buckets), world.group(),
      /*expect_sparse_gradients=*/std::vector<bool>(params.size(), false), cap,
      options.find_unused_parameters, options.gradient_as_bucket_view, std::move(names),
      c10d::kDefaultFirstBucketBytes, /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<int64_t>(caps.begin(), caps.end()));
  switch (options.compression) {
    case DdpOptions::Compression::none:
      if (averages(world)) reducer->register_comm_hook(std::make_unique<AverageHook>(world.group()));
      break;
    case DdpOptions::Compression::float16:
      reducer->register_builtin_comm_hook(c10d::BuiltinCommHookType::FP16_COMPRESS);
      break;
    case DdpOptions::Compression::bfloat16:
      reducer->register_comm_hook(std::make_unique<BFloat16CompressHook>(world.group()));
      break;
  }
  return reducer;
}

}  // namespace

struct DistributedDataParallel::State {
  const World* world;
  std::vector<at::Tensor> buffers;  // to broadcast before each synchronising forward
  bool bucket_views;
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;
};

DistributedDataParallel::DistributedDataParallel(const World& world, const NamedTensors& parameters,
                                                 std::vector<at::Tensor> buffers, const DdpOptions& options) {
  if (world.size() == 1) return;
  if (!(options.bucket_cap_mb > 0)) {
    throw usage_error("distributed.bucket_cap_mb: expected more than 0, found " +
                      std::to_string(options.bucket_cap_mb));
  }
  const NamedTensors unique = without_repetitions(parameters);
  verify(world, unique, buffers);
  auto all = values(unique);
  all.insert(all.end(), buffers.begin(), buffers.end());
  broadcast_(world, all);
  NamedTensors trained;
  std::copy_if(unique.begin(), unique.end(), std::back_inserter(trained),
               [](const auto& named) { return named.second.requires_grad(); });
  if (trained.empty()) throw usage_error("no parameter requires a gradient: there is nothing to train");
  if (!options.broadcast_buffers) buffers.clear();
  state_ = std::make_unique<State>(State{&world, std::move(buffers), options.gradient_as_bucket_view,
                                         make_reducer(world, trained, options), nullptr});
  if (options.find_unused_parameters) {
    // The Reducer tells a logger whether the graph changes, and takes it for granted that there is one.
    state_->logger = std::make_shared<c10d::Logger>(state_->reducer);
    state_->reducer->set_logger(state_->logger);
  }
}

DistributedDataParallel::~DistributedDataParallel() = default;
DistributedDataParallel::DistributedDataParallel(DistributedDataParallel&&) noexcept = default;
DistributedDataParallel& DistributedDataParallel::operator=(DistributedDataParallel&&) noexcept = default;

void DistributedDataParallel::prepare_forward() {
  if (!state_) return;
  state_->world->settle();
  with_peer_errors(*state_->world, "the ordering of gradient buckets", [this] {
    state_->reducer->prepare_for_forward();
    state_->reducer->rebuild_buckets();
  });
  broadcast_(*state_->world, state_->buffers);
}

bool DistributedDataParallel::gradients_are_bucket_views() const { return state_ && state_->bucket_views; }

void DistributedDataParallel::prepare_backward(const std::vector<at::Tensor>& outputs) {
  if (!state_) return;
  state_->reducer->prepare_for_backward(outputs);
}

}  // namespace ampctl::dist
