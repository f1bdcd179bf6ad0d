#include "config/load.h"

#include "config/check.h"
#include "config/layers.h"
#include "config/read.h"

namespace ampctl::config {
namespace {

ExperimentConfig interpret(const LayeredTree& tree, Problems& problems) {
  // What an unreadable source would have said is unknown; complaints about its absence would mislead.
  if (!tree.complete) problems.throw_if_any();
  ExperimentConfig config;
  Origins origins;
  Reader reader(tree.root, origins, problems);
  describe(reader, config);
  reader.finish();
  check(config, origins, problems);
  problems.throw_if_any();
  return config;
}

}  // namespace

ExperimentConfig load(const LoadRequest& request) {
  Problems problems;
  const LayeredTree tree = merged_layers(request, problems);
  return interpret(tree, problems);
}

ExperimentConfig load_text(const std::string& text, const std::string& name) {
  Problems problems;
  const LayeredTree tree = single_layer(text, name, problems);
  return interpret(tree, problems);
}

}  // namespace ampctl::config
