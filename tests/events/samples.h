// Events with plausible figures, and files read back.
#pragma once

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "events/events.h"

namespace ampctl::test {

events::RunStarted sample_run(int64_t start_step = 0);
events::StepEnd sample_step(int64_t step, double loss = 0.5);
events::Evaluated sample_evaluation(int64_t step);
events::Overflow sample_overflow(int64_t step, double scale_before);

std::string read_all(const std::filesystem::path& path);
std::vector<std::string> read_lines(const std::filesystem::path& path);
std::vector<std::string> split_lines(const std::string& text);

/// The message of what `action` throws; empty when it throws nothing.
template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace ampctl::test
