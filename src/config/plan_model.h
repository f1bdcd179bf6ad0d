// The plan's model, as the catalog of models knows it.
#pragma once

#include "catalog/models.h"
#include "config/run_plan.h"

namespace ampctl::config {

inline catalog::ModelShape plan_shape(const RunPlan& plan) {
  const ModelConfig& model = plan.config.model;
  return {plan.channels,    plan.input_height,  plan.input_width,
          plan.num_classes, model.hidden_sizes, model.dropout > 0};
}

inline catalog::ModelCost plan_cost(const RunPlan& plan) {
  return catalog::model_cost(plan.config.model.name, plan_shape(plan));
}

}  // namespace ampctl::config
