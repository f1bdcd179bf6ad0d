#include "train/checkpoint_io.h"

#include <exception>
#include <map>

#include <nlohmann/json.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "config/load.h"
#include "dist/collectives.h"
#include "train/generators.h"
#include "train/state_json.h"

namespace ampctl::train {
namespace {

struct DtypeName {
  c10::ScalarType dtype;
  const char* name;
};
constexpr DtypeName kDtypes[] = {{at::kDouble, "F64"},    {at::kFloat, "F32"}, {at::kHalf, "F16"},
                                 {at::kBFloat16, "BF16"}, {at::kLong, "I64"},  {at::kInt, "I32"},
                                 {at::kShort, "I16"},     {at::kChar, "I8"},   {at::kByte, "U8"},
                                 {at::kBool, "BOOL"}};

std::string dtype_name(c10::ScalarType dtype) {
  for (const auto& entry : kDtypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  throw Error(ErrorKind::internal, std::string("no safetensors name for dtype ") + c10::toString(dtype));
}

// Contiguous host copies (or the tensors themselves) and references to their bytes.
struct HostTensors {
  std::vector<at::Tensor> kept;
  std::vector<checkpoint::TensorRef> refs;

  void add(const std::string& name, const at::Tensor& tensor) {
    kept.push_back(tensor.detach().to(at::kCPU).contiguous());
    const at::Tensor& host = kept.back();
    refs.push_back(
        {name, dtype_name(host.scalar_type()), host.sizes().vec(), host.const_data_ptr(), host.nbytes()});
  }
};

HostTensors to_host(const NamedTensors& tensors) {
  HostTensors host;
  for (const auto& [name, tensor] : tensors) host.add(name, tensor);
  return host;
}

at::Tensor read_tensor(const checkpoint::SafetensorsFile& file, const checkpoint::TensorInfo& info,
                       c10::ScalarType dtype) {
  at::Tensor tensor = at::empty(info.shape, at::TensorOptions().dtype(dtype));
  if (info.bytes > 0) file.read(info, tensor.mutable_data_ptr());
  return tensor;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// How the global batch came about, where that is what differs.
std::string batch_arithmetic(const config::ExperimentConfig& config) {
  return std::to_string(config.data.batch_size.value_or(0)) + " x accumulation " +
         std::to_string(config.train.gradient_accumulation_steps.value_or(1)) + " x processes " +
         std::to_string(config.distributed.world_size.value_or(1)) + " = " +
         std::to_string(config.data.global_batch_size.value_or(0));
}

void refuse_other_plan(const std::filesystem::path& folder, const config::RunPlan& plan) {
  const config::ExperimentConfig saved = checkpoint_config(folder);
  std::string differences;
  for (const auto& difference : config::diff(saved, plan.config)) {
    if (config::may_change_on_resume(difference.key)) continue;
    differences +=
        "\n  " + difference.key + ": " + difference.left + " in the checkpoint, " + difference.right + " now";
    if (difference.key == "data.global_batch_size") {
      differences += " (batch size " + batch_arithmetic(saved) + " then, " + batch_arithmetic(plan.config) +
                     " now; set data.global_batch_size=" + difference.left +
                     " and leave train.gradient_accumulation_steps out)";
    }
  }
  if (differences.empty()) return;
  throw usage_error(
      "this configuration is not the one that " + folder.string() + " was made with:" + differences +
      "\nset these back, choose another `output`, or start anew from its weights (model.weights: " +
      (folder / checkpoint::kModelFile).string() + ")");
}

}  // namespace

NamedTensors named_parameters(const nn::Layer& model) {
  NamedTensors named;
  for (const auto& item : model.named_parameters()) named.emplace_back(item.key(), item.value());
  return named;
}

NamedTensors named_weights(const nn::Layer& model) {
  NamedTensors named = named_parameters(model);
  for (const auto& item : model.named_buffers()) named.emplace_back(item.key(), item.value());
  return named;
}

void load_tensors(const std::filesystem::path& path, const NamedTensors& targets) {
  const checkpoint::SafetensorsFile file(path);
  auto unused = file.tensors();
  std::string problems;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const auto& [name, target] : targets) {
    const auto found = unused.find(name);
    if (found == unused.end()) {
      problems += "\n  " + name + ": missing";
      continue;
    }
    const auto& info = found->second;
    const std::string wanted = dtype_name(target.scalar_type()) + shape_text(target.sizes().vec());
    const std::string has = info.dtype + shape_text(info.shape);
    if (wanted != has) {
      problems += "\n  " + name + ": expected " + wanted + ", found " + has;
    } else {
      copies.emplace_back(target, read_tensor(file, info, target.scalar_type()));
    }
    unused.erase(found);
  }
  for (const auto& [name, info] : unused) problems += "\n  " + name + ": unexpected";
  if (!problems.empty()) {
    throw environment_error(path.string() + " does not fit this model and optimizer:" + problems);
  }
  const at::NoGradGuard no_grad;
  for (auto& [target, value] : copies) target.copy_(value);
}

namespace {

std::filesystem::path write_checkpoint(const std::filesystem::path& checkpoints, const LiveState& live,
                                       const SavedState& saved, const std::vector<NamedTensors>& generators) {
  const HostTensors model = to_host(named_weights(live.model));
  const HostTensors optimizer = to_host(live.optimizer.named_state());
  const checkpoint::Metadata metadata{{"format", "pt"}};
  std::vector<checkpoint::FilePart> parts{{checkpoint::kModelFile, model.refs, metadata, {}},
                                          {checkpoint::kOptimizerFile, optimizer.refs, metadata, {}}};
  std::vector<HostTensors> ranks;
  ranks.reserve(generators.size());
  for (size_t rank = 0; rank < generators.size(); ++rank) {
    ranks.push_back(to_host(generators[rank]));
    parts.push_back({checkpoint::rank_file(static_cast<int64_t>(rank)), ranks.back().refs, {}, {}});
  }
  parts.push_back({checkpoint::kStateFile, {}, {}, to_json(saved)});
  return checkpoint::save(checkpoints, saved.progress.windows, parts);
}

}  // namespace

std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints, const LiveState& live,
                                      const Progress& progress, const config::RunPlan& plan,
                                      const std::vector<std::string>& class_names, const dist::World& world,
                                      const std::function<void(const std::filesystem::path&)>& written) {
  const std::vector<NamedTensors> generators = gather_generators(live.device, world);
  std::filesystem::path folder = checkpoints / checkpoint::folder_name(progress.windows);
  std::exception_ptr failure;
  std::string reason;
  if (world.is_main()) {
    try {
      SavedState saved;
      saved.progress = progress;
      saved.progress.steps_done = live.step.counters().steps_done.item<int64_t>();
      saved.scaler = live.scaler.state_dict();
      saved.class_names = class_names;
      saved.config = config::to_yaml(plan.config);
      folder = write_checkpoint(checkpoints, live, saved, generators);
      written(folder);
    } catch (const std::exception& error) {
      failure = std::current_exception();
      reason = error.what();
    }
  }
  const auto reasons = dist::gather_texts(world, reason);
  if (failure) std::rethrow_exception(failure);
  if (!reasons.empty() && !reasons.front().empty()) {
    throw Error(ErrorKind::peer, "rank 0 could not save the checkpoint of step " +
                                     std::to_string(progress.windows) + ": " + reasons.front());
  }
  return folder;
}

Progress load_checkpoint(const std::filesystem::path& folder, const LiveState& live,
                         const config::RunPlan& plan, const dist::World& world) {
  refuse_other_plan(folder, plan);
  const SavedState saved = read_state(folder);
  load_tensors(folder / checkpoint::kModelFile, named_weights(live.model));
  if (live.working_weights != nullptr) live.working_weights->refresh();
  load_tensors(folder / checkpoint::kOptimizerFile, live.optimizer.named_state());
  live.scaler.load_state_dict(saved.scaler);
  const int64_t ranks_then = checkpoint_config(folder).distributed.world_size.value_or(1);
  if (ranks_then == world.size()) {
    restore_generators(folder / checkpoint::rank_file(world.rank()), live.device);
  } else {
    seed_rank(plan.config.seed, world.rank(), saved.progress.windows, live.device);
  }
  live.step.set_counters(saved.progress.steps_done, saved.progress.windows);
  return saved.progress;
}

config::ExperimentConfig checkpoint_config(const std::filesystem::path& folder) {
  return config::load_text(read_state(folder).config, (folder / checkpoint::kStateFile).string());
}

}  // namespace ampctl::train
