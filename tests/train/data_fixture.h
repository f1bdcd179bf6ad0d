// A small data set and the plan that trains on it, as the worker makes them from a YAML file.
#pragma once

#include <string>

#include "config/load.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "train/trainer.h"

namespace ampctl::test {

/// 26 made-up images of 1x4x4 for training and 14 for evaluation, five classes.
struct SmallData {
  explicit SmallData(const std::string& more = "")
      : config(config::load_text(R"(device: cpu
model: {name: mlp, hidden_sizes: [8]}
data:
  batch_size: 4
  num_workers: 0
  train: {format: synthetic, num_samples: 26, image_size: 4, channels: 1, num_classes: 5}
  eval: {format: synthetic, num_samples: 14, image_size: 4, channels: 1, num_classes: 5}
)" + more,
                                 "test")),
        datasets(data::open_datasets(config.data, config.seed)),
        plan(config::resolve(config, datasets.train->facts(), datasets.eval->facts(), {1, "cpu"})) {}

  [[nodiscard]] data::Loader loader(const data::DatasetPtr& dataset, bool shuffle, int64_t batch,
                                    const std::atomic<bool>* stop = nullptr) const {
    data::LoaderOptions options;
    options.batch_size = batch;
    options.num_workers = 0;
    options.shuffle = shuffle;
    options.seed = config.seed;
    return data::Loader(dataset, {}, options, stop);
  }

  config::ExperimentConfig config;
  data::TrainEval datasets;
  config::RunPlan plan;
};

}  // namespace ampctl::test
