#include "optim/param_groups.h"

#include <algorithm>

#include "base/error.h"

namespace ampctl::optim {
namespace {

bool is_bias(const std::string& name) {
  return name.substr(name.rfind('.') + 1) == "bias";  // npos + 1 is 0: a name without a dot is taken whole
}

void check_names(const std::vector<std::pair<std::string, at::Tensor>>& parameters,
                 const std::set<std::string>& norm_parameters) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : parameters) {
    if (!names.insert(name).second) throw Error(ErrorKind::internal, "two parameters are named " + name);
  }
  for (const auto& name : norm_parameters) {
    if (names.count(name) == 0) {
      throw Error(ErrorKind::internal, "norm parameter " + name + " is not among the parameters");
    }
  }
}

}  // namespace

std::vector<ParamGroup> make_param_groups(const std::vector<std::pair<std::string, at::Tensor>>& parameters,
                                          const std::set<std::string>& norm_parameters,
                                          const config::OptimizerConfig& config) {
  check_names(parameters, norm_parameters);
  const auto decay_of = [&](const std::string& name) {
    if (config.bias_weight_decay && is_bias(name)) return *config.bias_weight_decay;
    if (config.norm_weight_decay && norm_parameters.count(name) != 0) return *config.norm_weight_decay;
    return config.weight_decay;
  };
  std::vector<ParamGroup> groups;
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.requires_grad()) continue;
    const double decay = decay_of(name);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const ParamGroup& g) { return g.weight_decay == decay; });
    if (group == groups.end()) group = groups.insert(group, ParamGroup{{}, {}, decay});
    group->names.push_back(name);
    group->params.push_back(tensor);
  }
  if (groups.empty()) {
    throw usage_error("no parameter requires a gradient: there is nothing to train (is every layer frozen?)");
  }
  return groups;
}

}  // namespace ampctl::optim
