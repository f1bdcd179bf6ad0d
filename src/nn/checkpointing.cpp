#include "nn/checkpointing.h"

#include <mutex>
#include <utility>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#ifdef AMPCTL_WITH_CUDA
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#endif

#include "amp/autocast.h"
#include "base/error.h"

namespace ampctl::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local bool recomputing = false;

class RecomputingScope {
 public:
  RecomputingScope() : previous_(std::exchange(recomputing, true)) {}
  ~RecomputingScope() { recomputing = previous_; }
  RecomputingScope(const RecomputingScope&) = delete;
  RecomputingScope& operator=(const RecomputingScope&) = delete;

 private:
  bool previous_;
};

struct GeneratorState {
  at::Generator generator;
  at::Tensor state;  // on the host, as a copy
};

at::Tensor state_of(at::Generator generator) {
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

std::vector<GeneratorState> generator_states(c10::Device device) {
  std::vector<at::Generator> generators{at::globalContext().defaultGenerator(at::kCPU)};
  if (!device.is_cpu() && !is_capturing(device)) {
    generators.push_back(at::globalContext().defaultGenerator(device));
  }
  std::vector<GeneratorState> states;
  states.reserve(generators.size());
  for (const auto& generator : generators) states.push_back({generator, state_of(generator)});
  return states;
}

/// Generators set back for one scope.
class RepeatedRandomness {
 public:
  explicit RepeatedRandomness(const std::vector<GeneratorState>& states) {
    for (const auto& then : states) now_.push_back({then.generator, state_of(then.generator)});
    for (const auto& then : states) set(then);
  }
  ~RepeatedRandomness() {
    for (const auto& now : now_) set(now);
  }
  RepeatedRandomness(const RepeatedRandomness&) = delete;
  RepeatedRandomness& operator=(const RepeatedRandomness&) = delete;

 private:
  static void set(GeneratorState state) {
    const std::scoped_lock lock(state.generator.mutex());
    state.generator.set_state(state.state);
  }

  std::vector<GeneratorState> now_;
};

/// How to run the function again, in the autograd graph's own box, which holds values only.
struct Recipe : torch::CustomClassHolder {
  Recipe(CheckpointedFunction what, c10::Device where)
      : function(std::move(what)),
        device(where.type()),
        autocast_enabled(at::autocast::is_autocast_enabled(device)),
        autocast_dtype(at::autocast::get_autocast_dtype(device)),
        autocast_cache(at::autocast::is_autocast_cache_enabled()),
        generators(generator_states(where)) {}

  CheckpointedFunction function;
  c10::DeviceType device;
  bool autocast_enabled;
  at::ScalarType autocast_dtype;
  bool autocast_cache;
  std::vector<GeneratorState> generators;
};

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Recipe>& recipe,
                            const at::Tensor& input, at::TensorList parameters) {
    variable_list sources{input};
    sources.insert(sources.end(), parameters.begin(), parameters.end());
    context->save_for_backward(std::move(sources));
    context->saved_data["recipe"] = c10::IValue::make_capsule(recipe);
    const auto version = input._version();
    at::Tensor output = recipe->function(input);
    if (input._version() != version || output.is_alias_of(input)) {
      throw Error(ErrorKind::internal,
                  "checkpoint: expected a function that leaves its input alone and returns new memory, found "
                  "one that changes its input or returns a part of it; run it without checkpointing");
    }
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto recipe = c10::static_intrusive_pointer_cast<Recipe>(context->saved_data["recipe"].toCapsule());
    variable_list sources = context->get_saved_variables();
    const bool is_recorded = at::GradMode::is_enabled();
    // Where this pass is recorded itself, what is computed here has to hang on the graph before the input.
    if (!is_recorded) sources[0] = sources[0].detach().set_requires_grad(context->needs_input_grad(0));
    variable_list wanted;
    for (size_t i = 0; i < sources.size(); ++i) {
      if (context->needs_input_grad(i)) wanted.push_back(sources[i]);
    }

    const at::AutoGradMode records(true);
    const at::Tensor output = run_again(*recipe, sources[0]);
    variable_list found = torch::autograd::grad({output}, wanted, {grads[0]}, /*retain_graph=*/is_recorded,
                                                /*create_graph=*/is_recorded, /*allow_unused=*/true);
    variable_list result(1 + sources.size());
    for (size_t i = 0, next = 0; i < sources.size(); ++i) {
      if (context->needs_input_grad(i)) result[1 + i] = std::move(found[next++]);
    }
    return result;
  }

 private:
  static at::Tensor run_again(const Recipe& recipe, const at::Tensor& input) {
    const RecomputingScope scope;
    const RepeatedRandomness randomness(recipe.generators);
    const amp::Autocast autocast(recipe.device, recipe.autocast_dtype, recipe.autocast_enabled,
                                 recipe.autocast_cache);
    return recipe.function(input);
  }
};

}  // namespace

at::Tensor checkpoint(CheckpointedFunction function, const at::Tensor& input,
                      const std::vector<at::Tensor>& parameters) {
  const auto recipe = c10::make_intrusive<Recipe>(std::move(function), input.device());
  return Checkpoint::apply(recipe, input, at::TensorList(parameters));
}

bool is_recomputing() { return recomputing; }

#ifdef AMPCTL_WITH_CUDA
bool is_capturing(c10::Device device) {
  if (!device.is_cuda()) return false;
  const c10::cuda::CUDAGuard guard(device);
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}
#else
bool is_capturing(c10::Device /*device*/) { return false; }
#endif

}  // namespace ampctl::nn
