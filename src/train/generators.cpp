#include "train/generators.h"

#include <cstring>
#include <mutex>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "data/random.h"
#include "dist/collectives.h"

namespace ampctl::train {
namespace {

using NamedGenerators = std::vector<std::pair<std::string, at::Generator>>;

NamedGenerators generators(c10::Device device) {
  NamedGenerators all{{"generator.cpu", at::globalContext().defaultGenerator(at::kCPU)}};
  if (!device.is_cpu()) all.emplace_back("generator.cuda", at::globalContext().defaultGenerator(device));
  return all;
}

at::Tensor bytes(const void* data, size_t size) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(size)}, at::TensorOptions().dtype(at::kByte));
  if (size > 0) std::memcpy(tensor.mutable_data_ptr(), data, size);
  return tensor;
}

}  // namespace

void seed_rank(int64_t seed, int64_t rank, int64_t step, c10::Device device) {
  for (auto& [name, generator] : generators(device)) {
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(data::Random(seed, data::Stream::step, rank, step).next());
  }
}

std::vector<NamedTensors> gather_generators(c10::Device device, const dist::World& world) {
  std::vector<NamedTensors> ranks(static_cast<size_t>(world.size()));
  for (auto& [name, generator] : generators(device)) {
    at::Tensor state;
    {
      const std::scoped_lock lock(generator.mutex());
      state = generator.get_state().contiguous();
    }
    if (world.size() == 1) {
      ranks.front().emplace_back(name, state);
      continue;
    }
    const std::string own(static_cast<const char*>(state.const_data_ptr()), state.nbytes());
    const auto all = dist::gather_texts(world, own);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      ranks[rank].emplace_back(name, bytes(all[rank].data(), all[rank].size()));
  }
  return ranks;
}

void restore_generators(const std::filesystem::path& file, c10::Device device) {
  const checkpoint::SafetensorsFile states(file);
  for (auto& [name, generator] : generators(device)) {
    const auto found = states.tensors().find(name);
    if (found == states.tensors().end()) {
      throw environment_error(
          file.string() + ": expected the state of " + name +
          ", which is missing: this checkpoint was written on another kind of device; resume "
          "it there, or start a new run from its weights (model.weights)");
    }
    const checkpoint::TensorInfo& info = found->second;
    at::Tensor state = at::empty(info.shape, at::TensorOptions().dtype(at::kByte));
    if (info.bytes > 0) states.read(info, state.mutable_data_ptr());
    const std::scoped_lock lock(generator.mutex());
    generator.set_state(state);
  }
}

}  // namespace ampctl::train
