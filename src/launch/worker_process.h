// Finding and becoming `ampctl-worker`, the program that links LibTorch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/environment.h"

namespace ampctl::launch {

inline constexpr const char* kWorkerName = "ampctl-worker";
inline constexpr const char* kWorkerVariable = "AMPCTL_WORKER";

/// The worker's path: $AMPCTL_WORKER when set, else beside this program, else in ../libexec/ampctl/.
/// Throws an environment error that says where it was looked for and what to do.
[[nodiscard]] std::filesystem::path find_worker(const Variables& variables);

/// The same for a program that lies in `folder`.
[[nodiscard]] std::filesystem::path find_worker(const Variables& variables,
                                                const std::filesystem::path& folder);

/// An anonymous file in memory, holding `text`, that programs started later inherit. Returns its descriptor,
/// at offset 0. Throws an environment error.
[[nodiscard]] int make_inherited_file(const std::string& name, const std::string& text);

/// Replaces this process by the worker: process id, signals and exit code are then its own.
/// `arguments` are without the program's name. Throws an environment error when it cannot be started.
[[noreturn]] void become_worker(const std::filesystem::path& worker,
                                const std::vector<std::string>& arguments);

}  // namespace ampctl::launch
