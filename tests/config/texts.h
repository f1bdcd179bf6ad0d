// Experiments to start from and the messages that they lead to.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/run_plan.h"

namespace ampctl::test {

/// The smallest complete experiment, five lines, which further lines can follow.
std::string minimal();
config::ExperimentConfig minimal_config();

/// The usage error that the text (as file "e.yaml") or the request leads to; "" when it is accepted. Other
/// kinds of errors pass through.
std::string message_of(const std::string& yaml);
std::string message_of(const config::LoadRequest& request);
/// The usage error of resolve(), "" when there is none.
std::string message_of_plan(const config::ExperimentConfig& config, const config::DatasetFacts& train,
                            const config::WorldFacts& world = {});

/// Writes a file and returns its path.
std::string write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace ampctl::test
