#include "ranks_scenario.h"

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>

#include "data/shard.h"
#include "dist/collectives.h"
#include "dist/distributed_data_parallel.h"
#include "nn/layer_tree.h"
#include "train/step_runner.h"

namespace ampctl::test {
namespace {

constexpr uint64_t kDataSeed = 100;

data::Batch part(const data::Batch& whole, const data::Span& span) {
  data::Batch batch;
  batch.images = whole.images.narrow(0, span.start, span.count);
  batch.targets = whole.targets.narrow(0, span.start, span.count);
  batch.size = span.count;
  batch.consumed = span.count;
  return batch;
}

data::Batch without_last(const data::Batch& batch) {
  data::Batch fewer = part(batch, {0, batch.size - 1});
  fewer.consumed = batch.consumed;
  fewer.corrupt = 1;
  return fewer;
}

/// This rank's micro-batches of one step; every rank draws the same samples and takes its own.
std::vector<data::Batch> window_of(const Scenario& scenario, size_t step, const dist::World& world) {
  const int64_t samples = scenario.windows[step];
  at::manual_seed(kDataSeed + step);
  const data::Batch whole = make_batch(scenario.setup.model, samples);
  const bool overflows = static_cast<int64_t>(step) == scenario.overflow_step;
  if (overflows) whole.images.select(0, samples - 1).fill_(std::numeric_limits<float>::infinity());
  std::vector<data::Batch> batches;
  const data::Span share = data::share_of({0, samples}, world.rank(), world.size());
  for (int64_t taken = 0; taken < share.count;) {
    const bool joined = scenario.sync_batch_norm && world.size() == 1;
    const int64_t count = joined ? samples : std::min(scenario.micro_batch, share.count - taken);
    data::Batch batch = part(whole, {share.start + taken, count});
    batch.images = batch.images.to(world.device(), scenario.setup.in_float64 ? at::kDouble : at::kFloat);
    batch.targets = batch.targets.to(world.device());
    batches.push_back(scenario.lose_samples ? without_last(batch) : batch);
    taken += count;
  }
  return batches;
}

void run_steps(const Scenario& scenario, const dist::World& world, train::TrainStep& step) {
  if (!scenario.captured) {
    for (size_t i = 0; i < scenario.windows.size(); ++i)
      step.run(window_of(scenario, i, world), scenario.windows[i]);
    return;
  }
  train::GraphOptions options;
  options.warm_up_steps = train::GraphOptions::kWarmUpRanks;
  options.has_ranks = world.size() > 1;
  train::StepRunner runner(step, world.device(), options);
  std::vector<at::Tensor> sums;
  for (size_t i = 0; i < scenario.windows.size(); ++i) {
    runner.run(window_of(scenario, i, world), scenario.windows[i]);
    if (i % 2 == 0) continue;
    // As an evaluation does; the host waits for nothing, so that graphs may be under way.
    sums.push_back(at::ones({1000}, at::TensorOptions(world.device())));
    dist::all_reduce_sum_(world, sums.back());
  }
  for (const auto& sum : sums) {
    if (!sum.eq(static_cast<double>(world.size())).all().item<bool>())
      throw std::runtime_error("an all-reduce between steps gave a wrong sum");
  }
  if (runner.graphs() == 0) throw std::runtime_error("no step was captured");
}

}  // namespace

Scenario scenario(const std::string& name) {
  Scenario whole_windows;
  whole_windows.windows = {24, 24, 24, 24, 24};
  Scenario uneven = whole_windows;
  uneven.windows = {24, 24, 7, 24, 1, 24};
  Scenario overflow = whole_windows;
  overflow.setup.precision = "float16";
  overflow.setup.lr = 0.01;
  overflow.overflow_step = 2;
  Scenario lost = whole_windows;
  lost.lose_samples = true;
  lost.windows = {24, 22, 24};
  Scenario clipped = uneven;
  clipped.setup.clip_grad_norm = 0.1;
  Scenario checkpointed = uneven;
  checkpointed.setup.activation_checkpointing = {"fc?"};
  Scenario casting = uneven;
  casting.setup.precision = "bfloat16";
  casting.setup.optimizer = "adamw";
  casting.setup.lr = 0.01;
  casting.bucket_views = true;
  Scenario working = casting;
  working.setup.working_weights = true;
  Scenario copied_norms;
  copied_norms.setup.model = "resnet18";
  copied_norms.setup.precision = "bfloat16";
  copied_norms.setup.channels_last = true;
  copied_norms.setup.lr = 0.01;
  copied_norms.windows = {8, 16, 7, 8};
  Scenario placed_norms = copied_norms;
  placed_norms.bucket_views = true;
  Scenario eager = whole_windows;
  eager.windows = std::vector<int64_t>(30, 24);
  for (const size_t step : {14, 17, 20, 24}) eager.windows[step] = step == 20 ? 5 : 7;
  eager.setup.lr = 0.01;
  eager.bucket_views = true;
  Scenario captured = eager;
  captured.captured = true;
  Scenario synced;
  synced.setup.model = "resnet18";
  synced.setup.lr = 1e-3;
  // Batch norm over a few values amplifies float32's rounding beyond any useful tolerance.
  synced.setup.in_float64 = true;
  synced.windows = {8, 8, 7, 8, 5, 8};
  synced.sync_batch_norm = true;
  const std::map<std::string, Scenario> all{{"sync_batch_norm", synced},
                                            {"whole", whole_windows},
                                            {"uneven", uneven},
                                            {"overflow", overflow},
                                            {"lost", lost},
                                            {"clipped", clipped},
                                            {"checkpointed", checkpointed},
                                            {"casting", casting},
                                            {"working", working},
                                            {"copied_norms", copied_norms},
                                            {"placed_norms", placed_norms},
                                            {"eager", eager},
                                            {"captured", captured}};
  return all.at(name);
}

Ending train(const Scenario& scenario, const dist::World& world) {
  SetupOptions options = scenario.setup;
  options.samples_vary = scenario.lose_samples;
  // Ranks begin differently: what they agree on must come from rank 0.
  options.seed = static_cast<uint64_t>(world.rank());
  options.device = world.device();
  if (scenario.sync_batch_norm) options.synced_micro_batch = scenario.micro_batch;
  Setup setup(options);
  if (scenario.sync_batch_norm && world.size() > 1)
    nn::convert_sync_batch_norm(*setup.model,
                                [&world](at::Tensor& sums) { dist::all_reduce_sum_(world, sums); });
  dist::NamedTensors parameters;
  for (const auto& item : setup.model->named_parameters()) parameters.emplace_back(item.key(), item.value());
  dist::DdpOptions ddp_options;
  ddp_options.gradient_as_bucket_view = scenario.bucket_views;
  dist::DistributedDataParallel ddp(world, parameters, setup.buffers->tensors(), ddp_options);
  if (setup.working_weights) setup.working_weights->refresh();
  if (world.size() > 1) setup.step->join(world, ddp);
  run_steps(scenario, world, *setup.step);

  Ending ending;
  for (const auto& parameter : setup.parameters()) {
    const at::Tensor values = parameter.to(at::kCPU, at::kDouble).contiguous().view({-1});
    ending.parameters.insert(ending.parameters.end(), values.const_data_ptr<double>(),
                             values.const_data_ptr<double>() + values.numel());
  }
  ending.rows = setup.rows();
  ending.scale = setup.scaler->get_scale();
  ending.steps_done = setup.step->counters().steps_done.item<int64_t>();
  return ending;
}

std::string to_text(const Ending& ending) {
  std::ostringstream out;
  out.precision(std::numeric_limits<double>::max_digits10);
  out << "scale " << ending.scale << "\nsteps_done " << ending.steps_done << "\nskips";
  for (const auto& row : ending.rows) out << " " << row.found_inf;
  out << "\nlosses";
  for (const auto& row : ending.rows) out << " " << row.loss_sum / static_cast<double>(row.samples);
  out << "\nparameters";
  for (const double value : ending.parameters) out << " " << value;
  out << "\n";
  return out.str();
}

}  // namespace ampctl::test
