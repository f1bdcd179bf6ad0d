// Every configuration struct described once, field by field: name, member, allowed values with unit, one
// sentence. What reads, checks, prints or documents configurations walks these descriptions.
#pragma once

#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "config/visitor.h"

namespace ampctl::config {

void describe(Visitor& f, ExperimentConfig& c);
void describe(Visitor& f, ModelConfig& c);
void describe(Visitor& f, DataConfig& c);
void describe(Visitor& f, DatasetConfig& c);
/// The options of `c.name`; the name itself is the entry's key.
void describe(Visitor& f, TransformConfig& c);
void describe(Visitor& f, SplitConfig& c);
void describe(Visitor& f, TrainConfig& c);
void describe(Visitor& f, EvalConfig& c);
void describe(Visitor& f, OptimizerConfig& c);
void describe(Visitor& f, LrScheduleConfig& c);
void describe(Visitor& f, ScaleLrConfig& c);
void describe(Visitor& f, AmpConfig& c);
void describe(Visitor& f, ScalerConfig& c);
void describe(Visitor& f, DistributedConfig& c);
void describe(Visitor& f, CheckpointConfig& c);
void describe(Visitor& f, LogConfig& c);

/// One kind of entry of a transforms list.
struct TransformKind {
  std::string name;
  std::string main_option;  ///< what `name: value` sets; empty: the entry needs a map or nothing
  bool random = false;
  std::string text;
};
const std::vector<TransformKind>& transform_kinds();
/// Null for an unknown name.
const TransformKind* find_transform(const std::string& name);

}  // namespace ampctl::config
