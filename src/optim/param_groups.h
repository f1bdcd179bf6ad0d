// Parameter groups by weight decay, after torchvision's references (norm_weight_decay, bias_weight_decay).
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/optim_config.h"
#include "optim/optimizer.h"

namespace ampctl::optim {

/// Every parameter that requires a gradient, in one group a distinct weight decay, in the order given. Rule,
/// as torchvision's set_weight_decay: a bias (last part of the name is "bias") takes bias_weight_decay where
/// that is set, a norm layer's parameter norm_weight_decay where that is set, everything else weight_decay; a
/// norm layer's bias counts as a bias first. `norm_parameters` are names out of `parameters`. Throws a usage
/// error when nothing is left to train, an internal one for an unknown or repeated name.
std::vector<ParamGroup> make_param_groups(const std::vector<std::pair<std::string, at::Tensor>>& parameters,
                                          const std::set<std::string>& norm_parameters,
                                          const config::OptimizerConfig& config);

}  // namespace ampctl::optim
